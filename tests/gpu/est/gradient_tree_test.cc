// GradientTree and reduce_parts together: with any division among workers, the sum has the bits of
// the definition of the tree.
#include "gpu/est/gradient_tree.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "gpu/base/aligned_buffer.h"
#include "gpu/est/reduce_tree.h"
#include "proto/base/sum_routes.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/est/gradient_tree") {
  using namespace es;
  using namespace es::gpu;

  using Gradients = std::vector<std::vector<float>>;  // By rank.

  Gradients random_gradients(std::mt19937_64 & random, std::uint32_t p, std::int64_t floats) {
    std::uniform_real_distribution<float> value(-1.0F, 1.0F);
    std::uniform_int_distribution<int> exponent(-20, 20);
    Gradients gradients(p, std::vector<float>(static_cast<std::size_t>(floats)));
    for (auto& g : gradients)
      for (float& v : g) v = std::ldexp(value(random), exponent(random));
    return gradients;
  }

  // node(l, h) = node(l, m) + node(m, h) over [0, 2^levels): the definition as code.
  float defined_sum(const Gradients& g, std::size_t i, std::uint64_t low, std::uint64_t high) {
    if (high - low == 1) return g[low][i];
    const std::uint64_t middle = (low + high) / 2;
    const float left = defined_sum(g, i, low, middle);
    return middle >= g.size() ? left : left + defined_sum(g, i, middle, high);
  }

  std::vector<float> defined_sum(const Gradients& g) {
    std::vector<float> sum(g[0].size());
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] = defined_sum(g, i, 0, std::uint64_t{1} << tree_levels(g.size()));
    return sum;
  }

  std::vector<RankRange> random_split(std::mt19937_64 & random, std::uint32_t p) {
    std::vector<RankRange> ranges;
    for (VirtualRank begin = 0; begin < p;) {
      const auto size = std::uniform_int_distribution<std::uint32_t>(1, p - begin)(random);
      ranges.push_back({begin, begin + size});
      begin += size;
    }
    return ranges;
  }

  bool same_bits(const float* a, const std::vector<float>& b) {
    return std::memcmp(a, b.data(), b.size() * sizeof(float)) == 0;
  }

  // A local step with this gradient.
  void run_rank(GradientTree & tree, VirtualRank rank, std::vector<AlignedBuffer> & slots,
                const std::vector<float>& gradient, const std::vector<Bucket>& buckets) {
    const GradientTarget target(tree.begin_rank(rank),
                                [&](std::uint32_t slot) { return slots.at(slot).data(); });
    float* const leaf = target.host(target.path.slots.front());
    for (std::uint32_t b = 0; b < buckets.size(); ++b) {
      const Bucket& bucket = buckets[b];
      std::copy_n(gradient.data() + bucket.begin, bucket.floats(), leaf + bucket.begin);
      merge_on_host(target, bucket, kernel_table(CpuClass::kScalar));
      tree.bucket_ready(b);
    }
  }

  // The slots and the tree of one worker. The parts that it reports go to `parts[bucket]`.
  struct TreeWorker {
    TreeWorker(RankRange range, std::uint32_t p, const std::vector<Bucket>& buckets,
               std::int64_t floats, std::vector<std::vector<GradientPart>>& parts)
        : range(range),
          slots(max_live_buffers(range, p), AlignedBuffer(floats)),
          tree(range, p, buckets.size(), [this, &buckets, &parts](const PartReady& r) {
            parts[r.bucket].push_back({r.ranks, slots.at(r.slot).data() + buckets[r.bucket].begin});
          }) {}

    void run(const Gradients& gradients, const std::vector<Bucket>& buckets) {
      for (VirtualRank rank = range.begin; rank < range.end; ++rank)
        run_rank(tree, rank, slots, gradients[rank], buckets);
    }

    RankRange range;
    std::vector<AlignedBuffer> slots;
    GradientTree tree;
  };

  TEST_CASE("any split of any number of ranks gives the bits of the definition") {
    std::mt19937_64 random(test::seed("gradient_tree"));
    const std::vector<Bucket> buckets{{32, 48}, {16, 32}, {0, 16}};
    HostAdder host(kernel_table(CpuClass::kScalar));
    for (std::uint32_t p = 1; p <= 33; ++p) {
      for (int trial = 0; trial < 8; ++trial) {
        CAPTURE(p);
        const Gradients gradients = random_gradients(random, p, 48);
        const std::vector<float> expected = defined_sum(gradients);
        std::vector<std::vector<GradientPart>> parts(buckets.size());
        std::vector<std::unique_ptr<TreeWorker>> workers;
        for (const RankRange range : random_split(random, p)) {
          workers.push_back(std::make_unique<TreeWorker>(range, p, buckets, 48, parts));
          workers.back()->run(gradients, buckets);
          CHECK(workers.back()->tree.complete());
          CHECK(workers.back()->tree.peak_live_buffers() == max_live_buffers(range, p));
        }
        AlignedBuffer workspace(reduce_workspace_floats(p));
        for (std::size_t b = 0; b < buckets.size(); ++b) {
          // The order of arrival is arbitrary.
          std::shuffle(parts[b].begin(), parts[b].end(), random);
          REQUIRE(cover({0, p}, parts[b]));
          std::vector<float> out(16);
          reduce_parts(GradientOrder::kTree, p, {0, p}, parts[b], 16, out.data(), workspace.data(),
                       host);
          CHECK(same_bits(out.data(), {expected.begin() + buckets[b].begin,
                                       expected.begin() + buckets[b].end}));
        }
      }
    }
  }

  // What the members add of one bucket for this owner. `parts`: what they have of it, by member.
  std::vector<float> add_on_the_way(const std::vector<SumMember>& members, std::uint32_t owner,
                                    std::uint32_t p, std::vector<std::vector<GradientPart>> parts,
                                    std::mt19937_64& random) {
    HostAdder host(kernel_table(CpuClass::kScalar));
    AlignedBuffer workspace(reduce_workspace_floats(p));
    std::vector<float> whole(16);
    const std::vector<PartialSum> sums = SumRoutes(members, p).to(owner);
    for (const PartialSum& sum : sums) {
      std::vector<GradientPart> added;
      float* own = nullptr;
      for (const PartialSum::Part& part : sum.parts) {
        const auto at = std::ranges::find(parts[part.at], part.ranks, &GradientPart::ranks);
        REQUIRE(at != parts[part.at].end());
        added.push_back(*at);
        if (part.at == sum.at && own == nullptr) own = const_cast<float*>(at->data);
      }
      const bool is_whole = &sum == &sums.back();
      REQUIRE((is_whole || own != nullptr));
      std::shuffle(added.begin(), added.end(), random);
      reduce_parts(GradientOrder::kTree, p, sum.ranks, added, 16, is_whole ? whole.data() : own,
                   workspace.data(), host);
      parts[sum.at].push_back({sum.ranks, own});
    }
    return whole;
  }

  TEST_CASE("sums that are added on the way to any owner have the bits of the definition") {
    std::mt19937_64 random(test::seed("sum_routes bits"));
    const std::vector<Bucket> buckets{{0, 16}};
    for (std::uint32_t p = 1; p <= 70; ++p) {
      CAPTURE(p);
      const Gradients gradients = random_gradients(random, p, 16);
      const std::vector<float> expected = defined_sum(gradients);
      std::vector<SumMember> members;
      for (const RankRange range : random_split(random, p))
        members.push_back({range, "host " + std::to_string(random() % 5)});
      for (std::uint32_t owner = 0; owner < members.size(); ++owner) {
        std::vector<std::vector<GradientPart>> parts;
        std::vector<std::unique_ptr<TreeWorker>> workers;
        for (const SumMember& member : members) {
          std::vector<std::vector<GradientPart>> of_buckets(1);
          workers.push_back(std::make_unique<TreeWorker>(member.ranks, p, buckets, 16, of_buckets));
          workers.back()->run(gradients, buckets);
          parts.push_back(of_buckets[0]);
        }
        CHECK(same_bits(add_on_the_way(members, owner, p, parts, random).data(), expected));
      }
    }
  }

  TEST_CASE("a worker reports exactly the maximal nodes of its range, each with every bucket") {
    const std::vector<Bucket> buckets{{16, 32}, {0, 16}};
    for (std::uint32_t p = 1; p <= 17; ++p)
      for (VirtualRank begin = 0; begin < p; ++begin)
        for (VirtualRank end = begin + 1; end <= p; ++end) {
          std::vector<std::vector<GradientPart>> parts(2);
          TreeWorker worker({begin, end}, p, buckets, 32, parts);
          worker.run(Gradients(p, std::vector<float>(32, 1.0F)), buckets);
          const std::vector<TreeNode> expected = maximal_nodes({begin, end}, p);
          for (const auto& reported : parts) {
            REQUIRE(reported.size() == expected.size());
            for (std::size_t i = 0; i < expected.size(); ++i) {
              CHECK(reported[i].ranks == covered_ranks(expected[i], p));
              CHECK(reported[i].data[0] == float(covered_ranks(expected[i], p).size()));
            }
          }
        }
  }

  TEST_CASE("buffers of contributed nodes stay in use until they are released") {
    const std::vector<Bucket> buckets{{0, 16}};
    std::vector<std::vector<GradientPart>> parts(1);
    TreeWorker worker({1, 6}, 8, buckets, 16, parts);  // The nodes [1,2) [2,4) [4,6).
    const Gradients gradients(8, std::vector<float>(16, 1.0F));
    worker.run(gradients, buckets);
    CHECK(worker.tree.live_buffers() == 3);
    worker.tree.release_all();
    CHECK(worker.tree.live_buffers() == 0);
    CHECK_FALSE(worker.tree.complete());
    worker.run(gradients, buckets);
    CHECK(worker.tree.complete());
  }

  TEST_CASE("a path says what the last step left, what is kept, and which slots hold parts") {
    for (std::uint32_t p = 1; p <= 17; ++p)
      for (VirtualRank begin = 0; begin < p; ++begin)
        for (VirtualRank end = begin + 1; end <= p; ++end)
          for (const GradientOrder order : {GradientOrder::kTree, GradientOrder::kPerWorker}) {
            std::vector<std::uint32_t> parts, kept;
            std::size_t kept_max = 0;
            GradientTree tree(
                {begin, end}, p, 1, [](const PartReady&) {}, order);
            for (VirtualRank rank = begin; rank < end; ++rank) {
              const GradientPath path = tree.begin_rank(rank);
              CHECK(path.first == (rank == begin));
              for (std::size_t i = 1; i < path.slots.size(); ++i) {  // The slots form a stack.
                REQUIRE_FALSE(kept.empty());
                CHECK(kept.back() == path.slots[i]);
                kept.pop_back();
              }
              (path.leaves ? parts : kept).push_back(path.slots.back());
              kept_max = std::max(kept_max, kept.size());
              CHECK(kept_max <= path.kept_max);
              if (rank + 1 == end) CHECK(kept_max == path.kept_max);
              tree.bucket_ready(0);
            }
            CHECK(kept.empty());
            CHECK(parts == tree.part_slots());
          }
  }

  TEST_CASE("a step that is abandoned in the middle leaves no trace in the next one") {
    const std::vector<Bucket> buckets{{16, 32}, {0, 16}};
    std::vector<std::vector<GradientPart>> parts(2);
    TreeWorker worker({0, 4}, 4, buckets, 32, parts);
    worker.tree.begin_rank(0);
    worker.slots[0] = AlignedBuffer(32);
    worker.tree.bucket_ready(0);
    worker.tree.release_all();
    worker.run(Gradients(4, std::vector<float>(32, 1.0F)), buckets);
    REQUIRE(parts[0].size() == 1);
    CHECK(parts[0][0].data[0] == 4.0F);
    CHECK(parts[1][0].data[0] == 4.0F);
  }

  TEST_CASE("long arrays are summed block by block, also when the sum overwrites a part") {
    std::mt19937_64 random(test::seed("reduce_tree"));
    const std::int64_t floats = 3 * 4096 + 37;
    const std::uint32_t p = 7;
    const Gradients gradients = random_gradients(random, p, floats);
    const std::vector<float> expected = defined_sum(gradients);
    Gradients copies = gradients;
    std::vector<GradientPart> parts;
    for (std::uint32_t r = 0; r < p; ++r) parts.push_back({{r, r + 1}, copies[r].data()});
    AlignedBuffer workspace(reduce_workspace_floats(p));
    HostAdder host(kernel_table(CpuClass::kScalar));
    reduce_parts(GradientOrder::kTree, p, {0, p}, parts, floats, copies[3].data(), workspace.data(),
                 host);
    CHECK(same_bits(copies[3].data(), expected));
  }

  // ((g0 + g1) + g2) ... over [begin, end).
  std::vector<float> chained(const Gradients& g, VirtualRank begin, VirtualRank end) {
    std::vector<float> sum = g[begin];
    for (VirtualRank r = begin + 1; r < end; ++r)
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + g[r][i];
    return sum;
  }

  TEST_CASE("in order per worker, ranks and then workers are chained") {
    std::mt19937_64 random(test::seed("gradient_chain"));
    const std::vector<Bucket> buckets{{16, 48}, {0, 16}};
    HostAdder host(kernel_table(CpuClass::kScalar));
    for (std::uint32_t p = 1; p <= 9; ++p) {
      CAPTURE(p);
      const Gradients gradients = random_gradients(random, p, 48);
      const std::vector<RankRange> split = random_split(random, p);
      std::vector<std::vector<GradientPart>> parts(buckets.size());
      std::vector<std::unique_ptr<std::vector<AlignedBuffer>>> memory;
      Gradients by_worker;
      for (const RankRange range : split) {
        const std::uint32_t slots = max_live_buffers(range, p, GradientOrder::kPerWorker);
        CHECK(slots == std::min(2U, range.size()));
        memory.push_back(std::make_unique<std::vector<AlignedBuffer>>(slots, AlignedBuffer(48)));
        GradientTree tree(
            range, p, buckets.size(),
            [&](const PartReady& r) {
              parts[r.bucket].push_back(
                  {r.ranks, memory.back()->at(r.slot).data() + buckets[r.bucket].begin});
            },
            GradientOrder::kPerWorker);
        for (int step = 0; step < 2; ++step) {  // The second step shows no trace of the first.
          tree.release_all();
          for (auto& bucket_parts : parts)
            std::erase_if(bucket_parts, [&](const GradientPart& x) { return x.ranks == range; });
          for (VirtualRank rank = range.begin; rank < range.end; ++rank)
            run_rank(tree, rank, *memory.back(), gradients[rank], buckets);
          CHECK(tree.complete());
        }
        by_worker.push_back(chained(gradients, range.begin, range.end));
      }
      const std::vector<float> expected =
          chained(by_worker, 0, static_cast<VirtualRank>(by_worker.size()));
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        REQUIRE(parts[b].size() == split.size());
        std::shuffle(parts[b].begin(), parts[b].end(), random);
        std::vector<float> out(static_cast<std::size_t>(buckets[b].floats()));
        reduce_parts(GradientOrder::kPerWorker, p, {0, p}, parts[b], buckets[b].floats(),
                     out.data(), nullptr, host);
        CHECK(same_bits(out.data(),
                        {expected.begin() + buckets[b].begin, expected.begin() + buckets[b].end}));
      }
    }
  }

  TEST_CASE("parts that overlap, leave a gap or go beyond the ranks do not cover") {
    const auto covers = [](std::vector<GradientPart> parts) { return cover({0, 4}, parts); };
    CHECK(cover({2, 4}, std::vector<GradientPart>{{{2, 4}, nullptr}}));
    CHECK_FALSE(cover({2, 4}, std::vector<GradientPart>{{{1, 3}, nullptr}}));
    CHECK(covers({{{1, 4}, nullptr}, {{0, 1}, nullptr}}));
    CHECK_FALSE(covers({{{1, 4}, nullptr}}));
    CHECK_FALSE(covers({{{2, 4}, nullptr}, {{0, 1}, nullptr}}));
    CHECK_FALSE(covers({{{0, 3}, nullptr}, {{2, 3}, nullptr}}));
    CHECK_FALSE(covers({{{0, 4}, nullptr}, {{1, 2}, nullptr}}));
    CHECK_FALSE(covers({{{0, 5}, nullptr}}));
    CHECK_FALSE(covers({{{0, 4}, nullptr}, {{9, 40}, nullptr}}));
  }

  TEST_CASE("the part of a single rank is the buffer that the rank wrote") {
    for (const GradientOrder order : {GradientOrder::kTree, GradientOrder::kPerWorker}) {
      std::optional<std::uint32_t> reported;
      GradientTree tree(
          {2, 3}, 4, 1, [&](const PartReady& r) { reported = r.slot; }, order);
      const GradientPath path = tree.begin_rank(2);
      CHECK(path.slots.size() == 1);
      CHECK(path.leaves);
      tree.bucket_ready(0);
      CHECK(reported == path.slots[0]);
    }
  }
}
