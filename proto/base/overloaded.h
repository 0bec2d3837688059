#pragma once
// Overloaded is one function object of several functions, for std::visit: a table that says what
// happens with each alternative. It does not compile if an alternative is missing.
//
//   std::visit(Overloaded{[&](const Go& m) { on_go(m); }, [&](const Drain& m) { on_drain(m); }},
//              message);

namespace es {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace es
