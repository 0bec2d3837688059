#pragma once
// Overloaded{f, g, ...} is one function for std::visit: the call goes to the function whose
// parameter fits.

namespace es {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace es
