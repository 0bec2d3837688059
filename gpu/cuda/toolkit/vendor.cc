// Opens cuBLAS and cuDNN. Each may be missing or may not work without the other being affected, and
// canonical kernels run in place of a missing one.
#include "gpu/cuda/vendor.h"

#include "gpu/cuda/toolkit/cublas.h"
#include "gpu/cuda/toolkit/cudnn.h"

namespace es::gpu::cuda {
namespace {

class Libraries final : public DeviceVendorLibrary {
 public:
  void open(Device& device, VendorMath math) {
    multiprocessors_ = device.multiprocessors();
    take("cuBLAS", open_cublas(device, math), cublas_);
    take("cuDNN", open_cudnn(math), cudnn_);
  }
  // A library that is installed but does not work is reported, so the object is then kept.
  bool nothing() const { return !cublas_ && !cudnn_ && not_working_.empty(); }

  // The libraries give equal bits for equal numbers of multiprocessors only, so that is a part of
  // the name.
  std::string name() const override {
    std::string all;
    const auto add = [&](const std::string& part) { all += (all.empty() ? "" : ", ") + part; };
    if (cublas_) add(cublas_->name());
    if (cudnn_) add(cudnn_->name());
    if (!all.empty() && multiprocessors_ > 0)
      add(std::to_string(multiprocessors_) + " multiprocessors");
    return all;
  }
  std::vector<std::string> not_working() const override { return not_working_; }
  Result<std::unique_ptr<DeviceVendorKernel>> conv(const ConvShape& shape, ConvPass pass) override {
    if (!cudnn_) return std::unique_ptr<DeviceVendorKernel>();
    return cudnn_->conv(shape, pass);
  }
  Result<std::unique_ptr<DeviceVendorKernel>> gemm(const MatmulShape& shape) override {
    if (!cublas_) return std::unique_ptr<DeviceVendorKernel>();
    return cublas_->gemm(shape);
  }

 private:
  template <class Library>
  void take(const char* which, Result<std::unique_ptr<Library>> opened,
            std::unique_ptr<Library>& library) {
    if (opened) {
      library = *std::move(opened);
    } else {
      not_working_.push_back(std::string(which) + " does not work here: " + opened.error().message);
    }
  }

  std::unique_ptr<Cublas> cublas_;
  std::unique_ptr<Cudnn> cudnn_;
  std::vector<std::string> not_working_;
  int multiprocessors_ = 0;
};

}  // namespace

Result<std::unique_ptr<DeviceVendorLibrary>> open_vendor_library(Device& device, VendorMath math) {
  auto libraries = std::make_unique<Libraries>();
  (void)device.call_library([&] {
    libraries->open(device, math);
    return Status();
  });
  ES_RETURN_IF_ERROR(device.check());
  if (libraries->nothing()) return std::unique_ptr<DeviceVendorLibrary>();
  return std::unique_ptr<DeviceVendorLibrary>(std::move(libraries));
}

}  // namespace es::gpu::cuda
