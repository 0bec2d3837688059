#pragma once
// A library that is found when the program runs, so that the program starts where it is not
// installed.
#include <dlfcn.h>

#include <string>

#include "proto/base/check.h"

namespace es::gpu::cuda {

class SharedLibrary {
 public:
  // By its soname, "libcudnn.so.9". It stays loaded.
  explicit SharedLibrary(const std::string& soname)
      : handle_(::dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL)) {}

  bool found() const { return handle_ != nullptr; }

  // ES_FUNCTION(library, NAME): the function that a header declares. REQUIRES: found().
  template <class Function>
  Function* function(const char* name) const {
    void* const symbol = ::dlsym(handle_, name);
    ES_CHECK_MSG(symbol != nullptr, name);  // the soname promises it
    return reinterpret_cast<Function*>(symbol);
  }

 private:
  void* handle_;
};

#define ES_FUNCTION(library, name) ((library).function<decltype(name)>(#name))

}  // namespace es::gpu::cuda
