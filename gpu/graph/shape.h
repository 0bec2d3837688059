#pragma once
// The extents of tensors. Values without allocation.
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "proto/base/check.h"

namespace es::gpu {

constexpr int kRankMax = 8;  // dimensions of a tensor

// The extents of a dense row-major tensor, the outermost dimension first. An axis is the number of
// a dimension, in [0, rank). A shape without dimensions has one element.
class TensorShape {
 public:
  constexpr TensorShape() = default;
  // REQUIRES: at most kRankMax extents.
  constexpr TensorShape(std::initializer_list<std::int64_t> extents) {
    for (const std::int64_t extent : extents) append(extent);
  }

  // REQUIRES: rank() < kRankMax.
  constexpr void append(std::int64_t extent) {
    ES_CHECK(rank_ < kRankMax);
    (*this)[rank_++] = extent;
  }
  constexpr int rank() const { return rank_; }
  constexpr std::int64_t operator[](int axis) const {
    return extent_[static_cast<std::size_t>(axis)];
  }
  constexpr std::int64_t& operator[](int axis) { return extent_[static_cast<std::size_t>(axis)]; }

  // Returns the number of elements of the dimensions [begin, end).
  constexpr std::int64_t count(int begin, int end) const {
    std::int64_t product = 1;
    for (int axis = begin; axis < end; ++axis) product *= (*this)[axis];
    return product;
  }
  constexpr std::int64_t count() const { return count(0, rank_); }
  // Returns the size of the last dimension, whose elements are neighbours in memory: a row.
  constexpr std::int64_t row() const { return rank_ == 0 ? 1 : (*this)[rank_ - 1]; }
  constexpr std::int64_t rows() const { return rank_ == 0 ? 1 : count(0, rank_ - 1); }
  // Returns the size of the first dimension.
  constexpr std::int64_t front() const { return rank_ == 0 ? 1 : (*this)[0]; }

  bool operator==(const TensorShape&) const = default;  // equal rank and extents

 private:
  std::array<std::int64_t, kRankMax> extent_ = {};  // 0 beyond the rank
  int rank_ = 0;
};

// The layout that operators on images take: [n,h,w,c], a tensor of rank 4. Vectors and matrices
// have h = w = 1, tokens are [n][t][1][c].
struct ImageShape {
  std::int64_t n = 1, h = 1, w = 1, c = 1;
  std::int64_t image() const { return h * w * c; }  // elements of one image
  std::int64_t count() const { return n * h * w * c; }
  std::int64_t rows() const { return n * h * w; }
  operator TensorShape() const { return {n, h, w, c}; }
  bool operator==(const ImageShape&) const = default;
};

// The axes of an image.
struct Axis {
  static constexpr int kN = 0, kH = 1, kW = 2, kC = 3;
};

constexpr bool is_image(const TensorShape& shape) {
  return shape.rank() == 4;
}
// REQUIRES: is_image(shape).
ImageShape image_of(const TensorShape& shape);

TensorShape with_extent(TensorShape shape, int axis, std::int64_t size);
std::string shape_text(const TensorShape& shape);  // "[32,28,28,64]"

}  // namespace es::gpu
