#include "gpu/cuda/vendor.h"

#include "gpu/cuda/toolkit/cublas.h"
#include "gpu/cuda/toolkit/cudnn.h"

namespace es::gpu::cuda {
namespace {

class Libraries final : public DeviceVendorLibrary {
 public:
  Libraries(std::unique_ptr<Cublas> cublas, std::unique_ptr<Cudnn> cudnn)
      : cublas_(std::move(cublas)), cudnn_(std::move(cudnn)) {}

  std::string name() const override {
    const std::string first = cublas_ ? cublas_->name() : "", second = cudnn_ ? cudnn_->name() : "";
    return first + (first.empty() || second.empty() ? "" : ", ") + second;
  }
  std::unique_ptr<DeviceVendorKernel> conv(const ConvShape& shape, ConvPass pass) override {
    return cudnn_ ? cudnn_->conv(shape, pass) : nullptr;
  }
  std::unique_ptr<DeviceVendorKernel> gemm(const MatmulShape& shape) override {
    return cublas_ ? cublas_->gemm(shape) : nullptr;
  }

 private:
  std::unique_ptr<Cublas> cublas_;
  std::unique_ptr<Cudnn> cudnn_;
};

}  // namespace

Result<std::unique_ptr<DeviceVendorLibrary>> open_vendor_library(Device& device, VendorMath math) {
  auto cublas = open_cublas(device, math);
  if (!cublas) return cublas.error();
  auto cudnn = open_cudnn(device, math);
  if (!cudnn) return cudnn.error();
  if (*cublas == nullptr && *cudnn == nullptr) return std::unique_ptr<DeviceVendorLibrary>();
  return std::unique_ptr<DeviceVendorLibrary>(
      std::make_unique<Libraries>(*std::move(cublas), *std::move(cudnn)));
}

}  // namespace es::gpu::cuda
