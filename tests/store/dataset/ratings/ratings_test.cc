#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>
#include <set>

#include "store/dataset/ratings/interactions.h"
#include "store/dataset/ratings/ratings_reader.h"
#include "store/dataset/sources.h"
#include "tests/store/mutate.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

bool mentions(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

std::string error_of(const std::string& text) {
  TempDirectory directory;
  write_file(directory / "u.data", text);
  const auto ratings = read_ratings(directory.path());
  return ratings.ok() ? "" : ratings.error().message;
}

struct Sample {
  std::uint32_t user, item;
  float label;
  auto operator<=>(const Sample&) const = default;
};

std::vector<Sample> samples_of(const std::vector<float>& words) {
  const std::size_t batch = words.size() / 3;
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < batch; ++i)
    samples.push_back({std::bit_cast<std::uint32_t>(words[i]),
                       std::bit_cast<std::uint32_t>(words[batch + i]), words[2 * batch + i]});
  return samples;
}

std::vector<Sample> train_samples(const SampleSource& source, std::uint64_t epoch) {
  std::vector<std::uint64_t> samples(source.train_count());
  for (std::uint64_t i = 0; i < samples.size(); ++i) samples[i] = i;
  std::vector<float> words(samples.size() * 3);
  REQUIRE(source.fill_train(epoch, samples, words).ok());
  return samples_of(words);
}

std::vector<Sample> eval_samples(const SampleSource& source) {
  std::vector<float> words(source.eval_count() * 3);
  REQUIRE(source.fill_eval(0, source.eval_count(), source.eval_count(), words).ok());
  return samples_of(words);
}

// 20 users and 300 items. User u has rated 2 + u of them, chosen at random. The rating with the
// largest time is last.
std::string random_ratings(std::mt19937_64& random, std::set<std::pair<int, int>>& rated,
                           std::map<int, int>& last) {
  std::string text;
  int time = 0;
  for (int item = 0; item < 300; ++item)  // User 99 (number 20) has rated 30 items.
    if (item % 10 == 0) {
      text += "99\t" + std::to_string(item) + "\t3\t" + std::to_string(++time) + "\n";
      rated.insert({20, item});
      last[20] = item;
    }
  for (int user = 0; user < 20; ++user)
    for (int i = 0; i < 2 + user;) {
      const int item = int(random() % 300);
      if (!rated.insert({user, item}).second) continue;
      text += std::to_string(user) + "\t" + std::to_string(item) + "\t5\t" +
              std::to_string(++time) + "\n";
      last[user] = item;
      ++i;
    }
  return text;
}

JobSpec job(const TempDirectory& directory) {
  JobSpec spec;
  spec.model.name = "neumf";
  spec.seed = 8;
  spec.data.kind = "ratings";
  spec.data.path = directory.path().string();
  spec.data.negatives = 3;
  return spec;
}

}  // namespace

TEST_SUITE("store/dataset/ratings") {
  TEST_CASE("the three published forms give the same ratings, numbered in ascending order") {
    const std::vector<Rating> expected{{1, 0, 100}, {0, 2, 50}, {1, 1, -3}};
    const std::map<std::string, std::string> files = {
        {"u.data", "70\t10\t3\t100\n5\t900\t4.5\t50\r\n70\t20\t1\t-3\n"},
        {"ratings.dat", "70::10::3::100\n5::900::4.5::50\n70::20::1::-3"},
        {"ratings.csv",
         "userId,movieId,rating,timestamp\n70,10,3,100\n5,900,4.5,50\n70,20,1,-3\n"}};
    for (const auto& [name, text] : files) {
      TempDirectory directory;
      write_file(directory / name, text);
      for (const auto& path : {directory.path(), directory / name}) {
        const auto ratings = read_ratings(path);
        REQUIRE(ratings.ok());
        CHECK(ratings->users == 2);
        CHECK(ratings->items == 3);
        CHECK(ratings->rows == expected);
      }
    }
  }

  TEST_CASE("an error in a row is reported with its line") {
    const std::string good = "1\t2\t3\t4\n";
    CHECK(mentions(
        error_of(good + "1\t2\t3\n"),
        "u.data: line 2: fields = 3: allowed is 4 (user, item, rating, time), divided by a tab"));
    CHECK(mentions(error_of(good + good + "1\tx\t3\t4\n"),
                   "line 3: item is not as it must be: allowed is a whole"));
    CHECK(mentions(error_of("-1\t2\t3\t4\n"), "line 1: user is not as it must be"));
    CHECK(mentions(error_of("1\t2\tnan\t4\n"),
                   "rating is not as it must be: allowed is a finite number"));
    CHECK(mentions(error_of("1\t2\t3\t4.5\n"), "time is not as it must be"));
    CHECK(mentions(error_of("99999999999999999999\t2\t3\t4\n"), "user is not as it must be"));
    CHECK(mentions(error_of(good + "\n" + good), "line 2: fields = 1"));
    CHECK(mentions(error_of("hello\n"), "line 1: text is not as it must be"));
    CHECK(mentions(error_of(""), "ratings = 0"));
    CHECK(mentions(error_of(good + std::string(10'000, '1')), "line 2: length"));
    TempDirectory empty;
    CHECK(read_ratings(empty.path()).error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("mutated files give ratings within their numbers, or an error with the file") {
    std::mt19937_64 random(seed("ratings mutations"));
    std::string text;
    for (int i = 0; i < 40; ++i)
      text += std::to_string(random() % 9) + "::" + std::to_string(random() % 20) +
              "::4::" + std::to_string(random() % 1000) + "\n";
    TempDirectory directory;
    int accepted = 0;
    for (int round = 0; round < 3000; ++round) {
      write_file(directory / "ratings.dat", mutate(text, random));
      const auto ratings = read_ratings(directory.path());
      if (!ratings.ok()) {
        REQUIRE(mentions(ratings.error().message, "ratings.dat"));
        continue;
      }
      ++accepted;
      for (const Rating& row : ratings->rows)
        REQUIRE((row.user < ratings->users && row.item < ratings->items));
    }
    CHECK(accepted > 0);
  }

  TEST_CASE("the latest rating of a user is held out; of equal times the later line is held out") {
    Ratings ratings{
        .users = 3,
        .items = 120,
        .rows = {{0, 7, 5}, {0, 3, 9}, {0, 5, 9}, {1, 2, 1}, {2, 4, 8}, {2, 9, 7}, {2, 4, 2}}};
    const auto interactions = Interactions::create(ratings);
    REQUIRE(interactions.ok());
    using Pair = Interactions::Pair;
    CHECK(std::ranges::equal(interactions->held_out(), std::vector<Pair>{{0, 5}, {2, 4}}));
    CHECK(std::ranges::equal(interactions->trained(),
                             std::vector<Pair>{{0, 3}, {0, 7}, {1, 2}, {2, 9}}));
  }

  TEST_CASE(
      "a user that has rated nearly all items cannot be evaluated, and the error names the user") {
    Ratings ratings{.users = 1, .items = 103, .rows = {}};
    for (std::uint32_t item = 0; item < 4; ++item) ratings.rows.push_back({0, item, item});
    CHECK(Interactions::create(ratings).ok());
    ratings.rows.push_back({0, 50, 50});
    const auto refused = Interactions::create(ratings);
    REQUIRE_FALSE(refused.ok());
    CHECK(mentions(refused.error().message, "user number 0"));
    CHECK(mentions(refused.error().message, "= 98: allowed is at least 99"));
  }

  TEST_CASE("ratings without a user to evaluate are refused before a negative is drawn") {
    TempDirectory directory;
    for (const char* text :
         {"1\t1\t5\t10\n", "1\t1\t5\t10\n2\t1\t5\t10\n", "1\t1\t5\t10\n2\t2\t5\t10\n"}) {
      write_file(directory / "u.data", text);
      const auto refused = Interactions::create(*read_ratings(directory.path()));
      REQUIRE_FALSE(refused.ok());
      CHECK(mentions(refused.error().message, "users who have rated two items or more = 0"));
    }
  }

  TEST_CASE("unrated items are numbered without a gap, compared with brute force") {
    std::mt19937_64 random(seed("unrated items"));
    std::set<std::pair<int, int>> rated;
    std::map<int, int> last;
    TempDirectory directory;
    write_file(directory / "u.data", random_ratings(random, rated, last));
    const auto interactions = *Interactions::create(*read_ratings(directory.path()));
    std::set<int> items;  // By their new numbers.
    for (const auto& [user, item] : rated) items.insert(item);
    const std::vector<int> ids(items.begin(), items.end());
    for (const Interactions::Pair& pair : interactions.held_out()) {
      const int user = int(pair.user);
      CHECK(ids[pair.item] == last[user]);
      std::vector<std::uint32_t> untrained, unrated;
      for (std::uint32_t i = 0; i < ids.size(); ++i) {
        const bool has = rated.contains({user, ids[i]});
        if (!has || i == pair.item) untrained.push_back(i);
        if (!has) unrated.push_back(i);
      }
      REQUIRE(interactions.untrained_count(pair.user) == untrained.size());
      for (std::uint32_t n = 0; n < untrained.size(); ++n)
        REQUIRE(interactions.untrained(pair.user, n) == untrained[n]);
      for (std::uint32_t n = 0; n < unrated.size(); ++n)
        REQUIRE(interactions.unrated(pair, n) == unrated[n]);
    }
  }

  TEST_CASE(
      "training: every rating but the held-out ones, each with negatives that change by epoch") {
    std::mt19937_64 random(seed("rating samples"));
    std::set<std::pair<int, int>> rated;
    std::map<int, int> last;
    TempDirectory directory;
    write_file(directory / "u.data", random_ratings(random, rated, last));
    const auto source = *ratings_source(job(directory));
    CHECK(source->train_count() == 4 * (rated.size() - 21));
    const auto samples = train_samples(*source, 0);
    std::set<std::pair<std::uint32_t, std::uint32_t>> positives;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      CHECK(samples[i].label == (i % 4 == 0 ? 1.0f : 0.0f));
      CHECK(samples[i].user == samples[i - i % 4].user);
      if (i % 4 == 0) positives.insert({samples[i].user, samples[i].item});
    }
    CHECK(positives.size() == samples.size() / 4);
    for (const Sample& sample : samples)
      if (sample.label == 0.0f) CHECK_FALSE(positives.contains({sample.user, sample.item}));
    CHECK(train_samples(*source, 0) == samples);
    CHECK(train_samples(*source, 1) != samples);
  }

  TEST_CASE("evaluation: a held-out item and 99 different ones that the user has not rated") {
    std::mt19937_64 random(seed("rating groups"));
    std::set<std::pair<int, int>> rated;
    std::map<int, int> last;
    TempDirectory directory;
    write_file(directory / "u.data", random_ratings(random, rated, last));
    const auto source = *ratings_source(job(directory));
    CHECK(source->eval_group() == 100);
    CHECK(source->eval_count() == 2100);
    const auto samples = eval_samples(*source);
    const auto trained = train_samples(*source, 0);
    std::set<std::pair<std::uint32_t, std::uint32_t>> known;
    for (const Sample& sample : trained)
      if (sample.label == 1.0f) known.insert({sample.user, sample.item});
    for (std::size_t group = 0; group < 21; ++group) {
      std::set<std::uint32_t> items;
      for (std::size_t i = 0; i < 100; ++i) {
        const Sample& sample = samples[100 * group + i];
        CHECK(sample.user == group);
        CHECK(sample.label == (i == 0 ? 1.0f : 0.0f));
        CHECK_FALSE(known.contains({sample.user, sample.item}));
        items.insert(sample.item);
      }
      CHECK(items.size() == 100);
    }
  }

  TEST_CASE("synthetic: the liked and the disliked items of a user have nothing in common") {
    DataSpec spec;
    spec.users = 40;
    spec.items = 150;
    spec.samples = 20'000;
    spec.eval_samples = 1'450;
    const auto source = synthetic_ratings_source(spec);
    CHECK(source->eval_count() == 1400);
    auto samples = train_samples(*source, 0);
    for (const Sample& sample : eval_samples(*source)) samples.push_back(sample);
    std::set<std::pair<std::uint32_t, std::uint32_t>> liked, others;
    for (const Sample& sample : samples)
      (sample.label == 1.0f ? liked : others).insert({sample.user, sample.item});
    CHECK(liked.size() > 500);
    CHECK(others.size() > 2000);
    std::size_t both = 0;
    for (const auto& pair : liked) both += others.contains(pair);
    CHECK(both == 0);
  }

  TEST_CASE("synthetic: a single user and a single item give samples too") {
    DataSpec spec;
    spec.users = 1;
    spec.items = 2;
    spec.samples = 50;
    spec.eval_samples = 100;
    const auto source = synthetic_ratings_source(spec);
    for (const Sample& sample : train_samples(*source, 0)) CHECK(sample.item < 2);
  }
}
