// Cross entropy, binary cross entropy and squared error.
#include "gpu/canonical/loss_math.h"
#include "gpu/cuda/kernels/array_sum.h"
#include "gpu/cuda/kernels/map.h"
#include "gpu/cuda/kernels/rows.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

struct CrossEntropyRows {
  static constexpr unsigned kThreads = kRowThreads;
  using Shared = OnlyRuns;
  std::int64_t rows, classes;
  const float* logits;
  const std::int32_t* labels;
  LossTerms terms;
  float *probs, *row_loss;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t row = my_row(block);
    if (row >= rows) return;
    const float* const x = logits + row * classes;
    // Read before the first barrier, behind which the probabilities may take its place.
    const std::int32_t label = labels[row];
    LossRow found{label < 0 ? 0.0f : x[label], 0.0f, row_max(block, classes, x), 0.0f};
    const float max = found.max;
    if (terms.smoothing != 0.0f)
      found.sum =
          run_sum64(block, classes, [&](std::int64_t i, float lane) { return lane + x[i]; });
    const float sum = run_sum64(block, classes, [&](std::int64_t i, float lane) {
      return lane + canonical_exp(x[i] - max);
    });
    // EXP is computed twice, as in softmax.cu, and not stored between its sum and the quotient.
    found.log = canonical_log(sum);
    const float scale = 1.0f / sum * probability_factor(terms, found);
    write_row(block, classes, probs + row * classes,
              [&](std::int64_t i) { return canonical_exp(x[i] - max) * scale; });
    if (block.thread() % 32 != 0) return;
    row_loss[row] = label < 0 ? 0.0f : row_loss_of(terms, found, classes);
  }
};

// Returns the number of rows with a label, at least 1, in every thread of a block of kThreads
// threads.
template <unsigned kThreads, class Block>
ES_HD std::int64_t count_labelled(const Block& block, std::int32_t (&count)[kThreads],
                                  std::int64_t rows, const std::int32_t* labels) {
  std::int32_t mine = 0;
  // The counts are integers, whose sum is the same in every order.
  for (std::int64_t r = block.thread(); r < rows; r += kThreads) mine += labels[r] >= 0 ? 1 : 0;
  count[block.thread()] = mine;
  block.sync();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (block.thread() < half) count[block.thread()] += count[block.thread() + half];
    block.sync();
  }
  return larger(count[0], 1);
}

struct CrossEntropyMean {
  static constexpr unsigned kThreads = 512;
  struct Shared {
    BlockSum sum;
    std::int32_t count[kThreads];
  };
  std::int64_t rows;
  const std::int32_t* labels;
  const float* row_loss;
  float* mean;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared& shared) const {
    const std::int64_t labelled = count_labelled(block, shared.count, rows, labels);
    const float sum = block_sum64<kThreads>(
        block, shared.sum, rows, [&](std::int64_t r, float lane) { return lane + row_loss[r]; });
    if (block.thread() == 0) *mean = sum * recip(labelled);
  }
};

void softmax_xent_fwd(Stream stream, std::int64_t rows, std::int64_t classes, const float* logits,
                      const std::int32_t* labels, const LossTerms& terms, float* probs,
                      float* row_loss) {
  launch(stream, {.x = blocks_of_rows(rows)},
         CrossEntropyRows{rows, classes, logits, labels, terms, probs, row_loss});
}

void softmax_xent_mean(Stream stream, std::int64_t rows, const std::int32_t* labels,
                       const float* row_loss, float* mean_loss) {
  // One block is enough: its runs of 32 threads share the chunks of 16,384 rows.
  launch(stream, {.x = 1}, CrossEntropyMean{rows, labels, row_loss, mean_loss});
}

// Every block counts the labels itself, so there are few blocks, and each thread processes every
// `step`th element.
struct CrossEntropyBackward {
  static constexpr unsigned kThreads = 256;
  struct Shared {
    std::int32_t count[kThreads];
  };
  std::int64_t rows, classes, step;
  const float* probs;
  const std::int32_t* labels;
  LabelledRows counted;
  LossTerms terms;
  float* dlogits;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared& shared) const {
    const float scale = recip(count_labelled(block, shared.count, counted.rows, counted.labels));
    const float share = share_of_class(terms, classes), hot = share_of_label(terms);
    for (std::int64_t i = thread_in_grid(*this, block); i < rows * classes; i += step) {
      // The division uses 32 bits, which is much cheaper on a GPU than 64 bits.
      const auto at = static_cast<std::uint32_t>(i), width = static_cast<std::uint32_t>(classes);
      const std::int32_t label = labels[at / width];
      const float onehot = static_cast<std::int64_t>(at % width) == label ? hot : 0.0f;
      dlogits[i] = label < 0 ? 0.0f : ((probs[i] - share) - onehot) * scale;
    }
  }
};

void softmax_xent_bwd(Stream stream, std::int64_t rows, std::int64_t classes, const float* probs,
                      const std::int32_t* labels, const LabelledRows& counted,
                      const LossTerms& terms, float* dlogits) {
  constexpr std::int64_t kBlocksMost = 1024;
  const std::int64_t blocks =
      smaller(kBlocksMost, numbered_blocks_for<CrossEntropyBackward>(rows * classes));
  launch(stream, {.x = blocks},
         CrossEntropyBackward{rows, classes, blocks * CrossEntropyBackward::kThreads, probs, labels,
                              counted, terms, dlogits});
}

struct BceLoss {
  ES_HD float operator()(float x, float t) const { return canonical_bce(x, t); }
};
struct BceGradient {
  float share;
  ES_HD float operator()(float x, float t) const { return (canonical_sigmoid(x) - t) * share; }
};
struct SquaredError {
  ES_HD float operator()(float x, float t) const {
    const float d = x - t;
    return d * d;
  }
};
struct SquaredErrorGradient {
  float share;
  ES_HD float operator()(float x, float t) const { return (x - t) * share; }
};

void mean_of_losses(Stream stream, std::int64_t n, const float* element_loss, float* mean_loss,
                    float* ws) {
  array_sum<AddElement>(stream, n, element_loss, recip(n), mean_loss, ws);
}

void bce_fwd(Stream stream, std::int64_t n, const float* x, const float* target,
             float* element_loss, float* mean_loss, float* ws) {
  map(stream, n, x, target, element_loss, BceLoss());
  mean_of_losses(stream, n, element_loss, mean_loss, ws);
}

void bce_bwd(Stream stream, std::int64_t n, const float* x, const float* target, float* dx) {
  map(stream, n, x, target, dx, BceGradient{recip(n)});
}

void mse_fwd(Stream stream, std::int64_t n, const float* x, const float* target,
             float* element_loss, float* mean_loss, float* ws) {
  map(stream, n, x, target, element_loss, SquaredError());
  mean_of_losses(stream, n, element_loss, mean_loss, ws);
}

void mse_bwd(Stream stream, std::int64_t n, const float* x, const float* target, float* dx) {
  map(stream, n, x, target, dx, SquaredErrorGradient{2.0f * recip(n)});
}

}  // namespace

void add_loss(DeviceKernels& kernels) {
  kernels.softmax_xent_fwd = softmax_xent_fwd;
  kernels.softmax_xent_mean = softmax_xent_mean;
  kernels.softmax_xent_bwd = softmax_xent_bwd;
  kernels.mean_loss_workspace_floats = array_sum_workspace_floats;
  kernels.bce_fwd = bce_fwd;
  kernels.bce_bwd = bce_bwd;
  kernels.mse_fwd = mse_fwd;
  kernels.mse_bwd = mse_bwd;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
