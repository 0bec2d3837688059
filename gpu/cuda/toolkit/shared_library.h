#pragma once
// A library that is loaded when the program runs, so that the program also starts where the library
// is not installed.
#include <dlfcn.h>

#include <string>

#include "proto/base/result.h"

namespace es::gpu::cuda {

class SharedLibrary {
 public:
  // Loads the library by its soname, for example "libcudnn.so.9". It stays loaded.
  explicit SharedLibrary(const std::string& soname)
      : soname_(soname), handle_(::dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) why_not_ = ::dlerror();
  }

  // Returns whether the library is installed, working or not.
  bool installed() const {
    return handle_ != nullptr ||
           !why_not_.starts_with(soname_ + ": cannot open shared object file: No such file");
  }

  // ES_FUNCTION(library, NAME) returns the function that a header declares as NAME; nullptr if it
  // is missing.
  template <class Function>
  Function* function(const char* name) {
    void* const symbol = handle_ != nullptr ? ::dlsym(handle_, name) : nullptr;
    if (symbol == nullptr && why_not_.empty()) why_not_ = soname_ + " has no function " + name;
    return reinterpret_cast<Function*>(symbol);
  }

  // Error (failure): the library cannot be loaded, or lacks a function that was asked for.
  Status complete() const { return why_not_.empty() ? Status() : Status(failure(why_not_)); }

 private:
  std::string soname_;
  void* handle_;
  std::string why_not_;  // the first reason
};

#define ES_FUNCTION(library, name) ((library).function<decltype(name)>(#name))

}  // namespace es::gpu::cuda
