#include "actors/views/ledger_diff.h"

#include <algorithm>
#include <bit>

namespace es::actors {
namespace {

using store::LedgerLine;

LedgerDifference differ(const LedgerLine& a, const LedgerLine& b) {
  LedgerDifference difference{a.version, {}, a.params_digest != b.params_digest, &a, &b};
  const std::size_t ranks = std::max(a.losses.size(), b.losses.size());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const bool both = rank < a.losses.size() && rank < b.losses.size();
    if (!both || std::bit_cast<std::uint32_t>(a.losses[rank]) !=
                     std::bit_cast<std::uint32_t>(b.losses[rank]))
      difference.losses.push_back(static_cast<VirtualRank>(rank));
  }
  return difference;
}

}  // namespace

LedgerComparison compare(const store::LedgerFile& a, const store::LedgerFile& b) {
  LedgerComparison result;
  auto left = a.lines.begin();
  auto right = b.lines.begin();
  while (left != a.lines.end() && right != b.lines.end()) {
    if (left->version < right->version) {
      ++result.only_a, ++left;
    } else if (right->version < left->version) {
      ++result.only_b, ++right;
    } else {
      ++result.compared;
      if (!store::same_bits(*left, *right)) {
        // Later steps start from other parameters, so their differences say nothing new.
        result.first = differ(*left, *right);
        return result;
      }
      ++left, ++right;
    }
  }
  result.only_a += static_cast<Version>(a.lines.end() - left);
  result.only_b += static_cast<Version>(b.lines.end() - right);
  return result;
}

std::string difference_text(const LedgerDifference& difference) {
  std::string text = "step " + std::to_string(difference.version) + ": ";
  for (const VirtualRank rank : difference.losses)
    text += (rank == difference.losses.front() ? "losses of ESTs " : ", ") + std::to_string(rank);
  if (!difference.losses.empty() && difference.digests) text += "; ";
  if (difference.digests) text += "digest of the parameters";
  return text;
}

}  // namespace es::actors
