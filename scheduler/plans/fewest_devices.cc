#include "scheduler/plans/fewest_devices.h"

#include <algorithm>
#include <limits>

#include "proto/base/check.h"

namespace es::scheduler {
namespace {

using Counts = std::vector<std::uint32_t>;

// Types [first, end) have the same number of places. The last ones of them are taken first, because
// they have the smallest weight.
struct PlaceClass {
  std::uint32_t places = 0;
  std::uint32_t available = 0;
  std::size_t first = 0, end = 0;
};

class CoverPath {
 public:
  CoverPath(std::span<const CoverType> types, std::uint32_t max_p) : types_(types) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (i == 0 || types[i].places != types[i - 1].places)
        classes_.push_back({types[i].places, 0, i, i});
      ES_CHECK(i == 0 || types[i].places <= types[i - 1].places);
      classes_.back().available += types[i].available;
      classes_.back().end = i + 1;
    }
    most_places_.push_back(0);
    // most_places_[n] is the number of places of the n devices with the most places. The first n
    // that reaches max_p is the least number of devices, since no other n devices have more places.
    for (const PlaceClass& c : classes_)
      for (std::uint32_t n = 0; n < c.available && most_places_.back() < max_p; ++n)
        most_places_.push_back(most_places_.back() + c.places);
    ES_CHECK_MSG(most_places_.back() >= max_p, "the devices have no place for each EST");
    devices_ = most_places_.size() - 1;
    // The best devices may have more places than needed. Other devices of the same number may be
    // used instead while they lack at most this many places in all.
    loss_max_ = most_places_.back() - max_p;
  }

  Counts counts() {
    // loss_max_ is less than the places of one device, because one device fewer would not suffice.
    choices_.resize(classes_.size() * (devices_ + 1) * (loss_max_ + 1));
    Counts counts(types_.size(), 0);
    std::size_t taken = 0;
    std::uint64_t loss_left = loss_max_;
    for (std::size_t c = 0; taken < devices_; ++c) {
      // The first call fills the entries of all states on the best path. Later calls find theirs.
      (void)least_weight(c, taken, loss_left);
      const std::uint32_t n = choice(c, taken, loss_left).devices;
      std::uint32_t rest = n;
      for (std::size_t i = classes_[c].end; i-- > classes_[c].first;) {
        counts[i] = std::min(rest, types_[i].available);
        rest -= counts[i];
      }
      loss_left -= loss_of(c, taken, n);
      taken += n;
    }
    return counts;
  }

 private:
  static constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();
  struct Choice {
    std::uint64_t weight = kUnknown;
    std::uint32_t devices = 0;
  };

  Choice& choice(std::size_t c, std::size_t taken, std::uint64_t loss_left) {
    return choices_[(c * (devices_ + 1) + taken) * (loss_max_ + 1) + loss_left];
  }

  // Places that n devices of class c lack compared with the best devices at the same positions.
  std::uint64_t loss_of(std::size_t c, std::size_t taken, std::uint32_t n) const {
    return most_places_[taken + n] - most_places_[taken] - std::uint64_t{n} * classes_[c].places;
  }

  // Whether the classes from c on can fill the remaining positions with at most this loss of
  // places.
  bool can_fill(std::size_t c, std::size_t taken, std::uint64_t loss_left) const {
    std::uint64_t rest = devices_ - taken;
    std::uint64_t places = 0;
    for (; rest > 0 && c < classes_.size(); ++c) {
      const std::uint64_t n = std::min<std::uint64_t>(rest, classes_[c].available);
      places += n * classes_[c].places;
      rest -= n;
    }
    // The remaining classes are taken in the order of their places, so `places` is the most that
    // they can have.
    return rest == 0 && places + loss_left >= most_places_[devices_] - most_places_[taken];
  }

  std::uint64_t weight_of(std::size_t c, std::uint32_t n) const {
    std::uint64_t weight = 0;
    for (std::size_t i = classes_[c].end; n > 0; --i) {
      const std::uint32_t of_type = std::min(n, types_[i - 1].available);
      weight += of_type * types_[i - 1].weight;
      n -= of_type;
    }
    return weight;
  }

  // The least weight of the devices after the first `taken` ones, if all belong to class c or a
  // later one. REQUIRES: can_fill.
  std::uint64_t least_weight(std::size_t c, std::size_t taken, std::uint64_t loss_left) {
    if (taken == devices_) return 0;
    Choice& best = choice(c, taken, loss_left);
    if (best.weight != kUnknown) return best.weight;
    const auto most = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(devices_ - taken, classes_[c].available));
    // One device fewer of this class means one more of a class with fewer places. If that fails, it
    // fails for all smaller numbers too.
    for (std::uint32_t n = most + 1; n-- > 0;) {
      const std::uint64_t loss = loss_of(c, taken, n);
      if (loss > loss_left || !can_fill(c + 1, taken + n, loss_left - loss)) break;
      const std::uint64_t weight =
          weight_of(c, n) + least_weight(c + 1, taken + n, loss_left - loss);
      // On equal weight the smaller n wins, so the list is the first one in lexicographic order.
      if (weight <= best.weight) best = {weight, n};
    }
    ES_CHECK(best.weight != kUnknown);
    return best.weight;
  }

  const std::span<const CoverType> types_;
  std::vector<PlaceClass> classes_;
  std::vector<std::uint64_t> most_places_;  // index: number of devices
  std::size_t devices_ = 0;                 // D
  std::uint64_t loss_max_ = 0;              // M - max_p
  std::vector<Choice> choices_;             // by class, devices taken before it, and remaining loss
};

}  // namespace

std::vector<std::uint32_t> fewest_devices(std::span<const CoverType> types, std::uint32_t max_p) {
  return CoverPath(types, max_p).counts();
}

}  // namespace es::scheduler
