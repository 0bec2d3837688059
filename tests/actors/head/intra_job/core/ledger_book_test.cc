#include "actors/head/intra_job/core/ledger_book.h"

#include <doctest/doctest.h>

#include <bit>

namespace es::actors::intra_job {
namespace {

using protocol::LedgerLine;
using Answer = LedgerBook::Answer;

LedgerLine line(Version version, std::uint64_t digest, float loss = 1.0f) {
  return {version, {std::bit_cast<std::uint32_t>(loss)}, {digest, digest}, std::nullopt};
}

TEST_SUITE("actors/head/intra_job/ledger_book") {
  TEST_CASE("each version passes once, in order") {
    LedgerBook book(10);
    CHECK(book.through() == 10);
    CHECK(book.add(line(12, 2), Incarnation{1}) == Answer::kGap);
    CHECK(book.add(line(10, 2), Incarnation{1}) == Answer::kGap);
    CHECK(book.add(line(11, 1), Incarnation{1}) == Answer::kAdded);
    CHECK(book.add(line(11, 1), Incarnation{2}) == Answer::kRepeated);
    CHECK(book.add(line(12, 2), Incarnation{2}) == Answer::kAdded);
    CHECK(book.through() == 12);
    CHECK(book.first()->version == 11);
    CHECK(book.last()->version == 12);
  }

  TEST_CASE("a repetition with other parameters names both digests and workers") {
    LedgerBook book(0);
    book.add(line(1, 0xa), Incarnation{7});
    CHECK(book.add(line(1, 0xb), Incarnation{9}) == Answer::kConflict);
    CHECK(book.conflict() ==
          "non-deterministic: step 1: digest 000000000000000a000000000000000a on worker 7, "
          "digest 000000000000000b000000000000000b on worker 9");
  }

  TEST_CASE("skipped versions are known without a line, and lines before them are forgotten") {
    LedgerBook book(10);
    book.add(line(11, 1), Incarnation{1});
    book.skip_to(11);
    CHECK(book.add(line(11, 1), Incarnation{1}) == Answer::kRepeated);
    book.skip_to(19);
    CHECK(book.through() == 19);
    CHECK(book.add(line(11, 1), Incarnation{1}) == Answer::kGap);
    CHECK(book.add(line(20, 2), Incarnation{1}) == Answer::kAdded);
    CHECK(book.last()->version == 20);
  }

  TEST_CASE("after a rewind other lines may follow, and the lines that are left still count") {
    LedgerBook book(10);
    for (Version v = 11; v <= 13; ++v) book.add(line(v, v), Incarnation{1});
    book.rewind(11);
    CHECK(book.through() == 11);
    CHECK(book.last()->version == 11);
    CHECK(book.add(line(12, 99), Incarnation{2}) == Answer::kAdded);
    CHECK(book.add(line(11, 99), Incarnation{2}) == Answer::kConflict);
    book.rewind(10);
    CHECK_FALSE(book.last().has_value());
    CHECK_FALSE(book.first().has_value());
    CHECK(book.add(line(11, 99), Incarnation{2}) == Answer::kAdded);
  }

  TEST_CASE("a repetition with other losses or another state is a conflict too") {
    LedgerBook book(0);
    LedgerLine with_state = line(1, 1);
    with_state.state = Digest{1, 2};
    book.add(with_state, Incarnation{1});
    CHECK(book.add(line(1, 1, 2.0f), Incarnation{2}) == Answer::kConflict);
    LedgerLine other_state = with_state;
    other_state.state = Digest{1, 3};
    CHECK(book.add(other_state, Incarnation{2}) == Answer::kConflict);
    CHECK(book.conflict().find("losses or state 00000000000000010000000000000002") !=
          std::string::npos);
    CHECK(book.add(with_state, Incarnation{2}) == Answer::kRepeated);
  }

  TEST_CASE("the mean loss is taken over the ESTs") {
    LedgerLine two = line(1, 1, 1.0f);
    two.loss_bits.push_back(std::bit_cast<std::uint32_t>(2.0f));
    CHECK(mean_loss(two) == 1.5);
  }
}

}  // namespace
}  // namespace es::actors::intra_job
