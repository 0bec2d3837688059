#pragma once
// A library that is found when the program runs, so that the program starts where it is not
// installed.
#include <dlfcn.h>

#include <string>

#include "proto/base/result.h"

namespace es::gpu::cuda {

class SharedLibrary {
 public:
  // By its soname, "libcudnn.so.9". It stays loaded.
  explicit SharedLibrary(const std::string& soname)
      : soname_(soname), handle_(::dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) why_not_ = ::dlerror();
  }

  // Whether it is installed at all, working or not.
  bool installed() const {
    return handle_ != nullptr ||
           !why_not_.starts_with(soname_ + ": cannot open shared object file: No such file");
  }

  // ES_FUNCTION(library, NAME): the function that a header declares; nullptr where it is missing.
  template <class Function>
  Function* function(const char* name) {
    void* const symbol = handle_ != nullptr ? ::dlsym(handle_, name) : nullptr;
    if (symbol == nullptr && why_not_.empty()) why_not_ = soname_ + " has no function " + name;
    return reinterpret_cast<Function*>(symbol);
  }

  // Error (failure): it cannot be loaded, or lacks a function that was asked for.
  Status complete() const { return why_not_.empty() ? Status() : Status(failure(why_not_)); }

 private:
  std::string soname_;
  void* handle_;
  std::string why_not_;  // the first reason
};

#define ES_FUNCTION(library, name) ((library).function<decltype(name)>(#name))

}  // namespace es::gpu::cuda
