#pragma once
// How a dense product is cut into blocks. It changes no bit.
#include <cstddef>
#include <cstdint>

namespace es::gpu::cuda {

// `count` products of m x n results of k. The batch index of product i is (i / inner, i mod inner).
struct ProductShape {
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t count = 1, inner = 1;
};
// Where the matrices of a batch begin, from one outer or inner index to the next.
struct BatchSteps {
  std::int64_t outer = 0, inner = 0;  // floats
};

// Chunks of 512 k; at least one.
std::int64_t product_chunks(const ProductShape& shape);

struct ProductCut {
  int side;              // of the square tiles: 128, 64 or 32
  std::int64_t at_once;  // chunks whose results are made at the same time; 0: one after the other
};
// `quads`: the operands can be read by four floats, as the largest tile does.
ProductCut cut_product(const ProductShape& shape, bool quads);

// What the results of `at_once` chunks need, with or without quads.
std::size_t product_workspace_floats(const ProductShape& shape);

}  // namespace es::gpu::cuda
