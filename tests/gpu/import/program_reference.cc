#include "tests/gpu/import/program_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

#include "proto/base/check.h"
#include "proto/base/philox.h"

namespace es::test {
namespace {

using Ints = std::vector<std::int64_t>;

std::int64_t product(const Ints& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Calls visit(index) for every index of the shape, in row-major order.
void for_each(const Ints& shape, const std::function<void(const Ints&)>& visit) {
  Ints index(shape.size(), 0);
  for (std::int64_t i = 0; i < product(shape); ++i) {
    visit(index);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

// The element at an index, whose last axes are those of the array; an axis of extent 1 is repeated.
double at(const Array& x, const Ints& index) {
  std::int64_t offset = 0;
  const std::size_t added = index.size() - x.shape.size();
  for (std::size_t d = 0; d < x.shape.size(); ++d)
    offset = offset * x.shape[d] + (x.shape[d] == 1 ? 0 : index[d + added]);
  return x.values[static_cast<std::size_t>(offset)];
}

Array make(const Ints& shape, const std::function<double(const Ints&)>& value) {
  Array y{shape, {}};
  for_each(shape, [&](const Ints& index) { y.values.push_back(value(index)); });
  return y;
}

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
double clamped(double x, double low, double high) {
  return std::min(std::max(x, low), high);
}

class Evaluation {
 public:
  Evaluation(const ModelProgram& program, std::int64_t batch, const gpu::DropoutKey& key)
      : p_(program), batch_(batch), key_(key) {
    values.resize(program.values.size());
  }

  void run(const Arrays& given) {
    for (const ModelInput& input : p_.inputs) at_id(input.value) = given.at(input.name);
    for (const ModelParameter& q : p_.parameters) at_id(q.value) = given.at(q.name);
    for (const ModelState& s : p_.states) {
      Array& y = at_id(s.value);
      y.shape = shape_of(s.value);
      y.values.assign(static_cast<std::size_t>(product(y.shape)), 0.0);
    }
    for (const ModelConstant& c : p_.constants) {
      Array& y = at_id(c.value);
      y.shape = shape_of(c.value);
      for (const std::uint32_t word : c.words)
        y.values.push_back(type_of(c.value) == ValueType::kF32
                               ? static_cast<double>(std::bit_cast<float>(word))
                               : static_cast<double>(static_cast<std::int32_t>(word)));
    }
    for (const ModelNode& node : p_.nodes) {
      node_ = &node;
      out_ = shape_of(node.outputs[0]);
      at_id(node.outputs[0]) = compute();
    }
  }

  std::vector<Array> values;

 private:
  Array& at_id(ValueId id) { return values[static_cast<std::size_t>(id)]; }
  ValueType type_of(ValueId id) const { return p_.values[static_cast<std::size_t>(id)].type; }
  Ints shape_of(ValueId id) const {
    Ints shape;
    for (const ModelDim& d : p_.values[static_cast<std::size_t>(id)].dims)
      shape.push_back(d.per_batch ? d.size * batch_ : d.size);
    return shape;
  }
  const Array& in(std::size_t slot) { return at_id(node_->inputs[slot]); }
  bool has(std::size_t slot) const {
    return slot < node_->inputs.size() && node_->inputs[slot] != kNoValue;
  }
  template <class T>
  T get(const std::string& name, T fallback = {}) const {
    for (const ModelAttribute& a : node_->attributes)
      if (a.name == name && std::holds_alternative<T>(a.value)) return std::get<T>(a.value);
    return fallback;
  }
  std::int64_t integer(const char* name, std::int64_t fallback = 0) const {
    return get<std::int64_t>(name, fallback);
  }
  double number(const char* name, double fallback = 0.0) const {
    return get<double>(name, fallback);
  }
  Ints ints(const char* name) const { return get<Ints>(name); }

  Array map(const std::function<double(double)>& f) {
    Array y = in(0);
    for (double& v : y.values) v = f(v);
    return y;
  }
  Array zip(const std::function<double(double, double)>& f) {
    return make(out_, [&](const Ints& i) { return f(at(in(0), i), at(in(1), i)); });
  }

  Array compute() {
    const std::string& k = node_->kind;
    for (auto topic :
         {&Evaluation::random, &Evaluation::unary, &Evaluation::binary, &Evaluation::move,
          &Evaluation::reduction, &Evaluation::norm, &Evaluation::layer, &Evaluation::loss}) {
      Array y = (this->*topic)(k);
      if (y.values.empty()) continue;
      ES_CHECK_MSG(static_cast<std::int64_t>(y.values.size()) == product(out_), k);
      y.shape = out_;
      return y;
    }
    ES_CHECK_MSG(false, k);
  }

  double uniform(std::uint32_t site, std::uint64_t e) const {
    const auto block = static_cast<std::uint32_t>((e >> 7) * 32 + (e & 31));
    const auto words = philox4x32_10({block, site, key_.step, key_.rank}, philox_key(key_.seed));
    return static_cast<double>(uniform_float(words[(e >> 5) & 3]));
  }

  Array random(const std::string& k) {
    if (k != "uniform" && k != "normal") return {};
    const auto site = static_cast<std::uint32_t>(integer("site"));
    Array y;
    for (std::uint64_t e = 0; e < static_cast<std::uint64_t>(product(out_)); ++e) {
      const double u = uniform(site, e), v = uniform(site | 0x80000000, e);
      y.values.push_back(
          k == "uniform" ? u : std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * std::acos(-1.0) * v));
    }
    return y;
  }

  Array unary(const std::string& k) {
    static const std::map<std::string, double (*)(double)> kFunctions = {
        {"relu", [](double x) { return std::max(x, 0.0); }},
        {"tanh", [](double x) { return std::tanh(x); }},
        {"sigmoid", sigmoid},
        {"silu", [](double x) { return x * sigmoid(x); }},
        {"hardswish", [](double x) { return x * clamped(x + 3, 0, 6) / 6; }},
        {"hardsigmoid", [](double x) { return clamped(x + 3, 0, 6) / 6; }},
        {"mish", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
        {"exp", [](double x) { return std::exp(x); }},
        {"log", [](double x) { return std::log(x); }},
        {"log1p", [](double x) { return std::log1p(x); }},
        {"expm1", [](double x) { return std::expm1(x); }},
        {"sqrt", [](double x) { return std::sqrt(x); }},
        {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
        {"reciprocal", [](double x) { return 1 / x; }},
        {"sin", [](double x) { return std::sin(x); }},
        {"cos", [](double x) { return std::cos(x); }},
        {"erf", [](double x) { return std::erf(x); }},
        {"abs", [](double x) { return std::abs(x); }},
        {"neg", [](double x) { return -x; }},
        {"square", [](double x) { return x * x; }},
        {"floor", [](double x) { return std::floor(x); }},
        {"round", [](double x) { return std::nearbyint(x); }},
        {"sign", [](double x) { return x > 0   ? 1.0
                                       : x < 0 ? -1.0
                                               : 0.0; }},
        {"not", [](double x) { return x == 0 ? 1.0 : 0.0; }},
        {"stop_gradient", [](double x) { return x; }},
        {"set_state", [](double x) { return x; }},
        {"dropout", [](double x) { return x; }},
        {"sample_dropout", [](double x) { return x; }},
    };
    if (const auto f = kFunctions.find(k); f != kFunctions.end()) return map(f->second);
    if (k == "leaky_relu") return map([&](double x) { return x > 0 ? x : x * number("slope"); });
    if (k == "elu")
      return map([&](double x) { return x > 0 ? x : number("alpha", 1) * std::expm1(x); });
    if (k == "softplus")
      return map([&](double x) {
        return std::log1p(std::exp(number("beta", 1) * x)) / number("beta", 1);
      });
    if (k == "clamp")
      return map([&](double x) { return clamped(x, number("min", -1e300), number("max", 1e300)); });
    if (k == "pow_scalar") return map([&](double x) { return std::pow(x, number("exponent")); });
    if (k == "add_scalar") return map([&](double x) { return x + number("value"); });
    if (k == "mul_scalar") return map([&](double x) { return x * number("value"); });
    if (k == "gelu") return map([&](double x) { return gelu(x); });
    if (k == "cast")
      return map([&](double x) {
        const std::string to = get<std::string>("to");
        return to == "bool" ? (x != 0 ? 1.0 : 0.0) : to == "i32" ? std::trunc(x) : x;
      });
    return {};
  }

  double gelu(double x) const {
    if (get<std::string>("approximate") == "none") return x * (1 + std::erf(x / std::sqrt(2))) / 2;
    const double c = std::sqrt(2 / std::acos(-1.0));
    return 0.5 * x * (1 + std::tanh(c * (x + 0.044715 * x * x * x)));
  }

  Array binary(const std::string& k) {
    static const std::map<std::string, double (*)(double, double)> kFunctions = {
        {"add", [](double a, double b) { return a + b; }},
        {"sub", [](double a, double b) { return a - b; }},
        {"mul", [](double a, double b) { return a * b; }},
        {"div", [](double a, double b) { return a / b; }},
        {"maximum", [](double a, double b) { return std::max(a, b); }},
        {"minimum", [](double a, double b) { return std::min(a, b); }},
        {"pow", [](double a, double b) { return std::pow(a, b); }},
        {"eq", [](double a, double b) { return a == b ? 1.0 : 0.0; }},
        {"ne", [](double a, double b) { return a != b ? 1.0 : 0.0; }},
        {"lt", [](double a, double b) { return a < b ? 1.0 : 0.0; }},
        {"le", [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
        {"gt", [](double a, double b) { return a > b ? 1.0 : 0.0; }},
        {"ge", [](double a, double b) { return a >= b ? 1.0 : 0.0; }},
        {"and", [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }},
        {"or", [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }},
    };
    if (const auto f = kFunctions.find(k); f != kFunctions.end()) return zip(f->second);
    if (k == "where")
      return make(out_,
                  [&](const Ints& i) { return at(in(0), i) != 0 ? at(in(1), i) : at(in(2), i); });
    return {};
  }

  Array move(const std::string& k) {
    const auto axis = static_cast<std::size_t>(integer("axis"));
    if (k == "reshape") return in(0);
    if (k == "expand") return make(out_, [&](const Ints& i) { return at(in(0), i); });
    if (k == "concat") return concat(axis);
    if (k == "take_rows" || k == "embedding") return rows(k);
    if (k == "gather")
      return make(out_, [&](Ints i) {
        i[axis] = static_cast<std::int64_t>(at(in(1), i));
        return at(in(0), i);
      });
    if (k == "scatter_add") return scatter_add(axis);
    return make_moved(k, axis);
  }

  // Kinds whose every output element is an input element or a constant.
  Array make_moved(const std::string& k, std::size_t axis) {
    const bool pads = k.starts_with("pad");
    if (!pads && k != "permute" && k != "slice" && k != "roll" && k != "flip" &&
        k != "index_select")
      return {};
    return make(out_, [&](Ints i) {
      const Ints& shape = in(0).shape;
      if (k == "slice") i[axis] = integer("begin") + i[axis] * integer("step", 1);
      if (k == "index_select") i[axis] = ints("index")[static_cast<std::size_t>(i[axis])];
      if (k == "roll")
        i[axis] = ((i[axis] - integer("shift")) % shape[axis] + shape[axis]) % shape[axis];
      if (k == "permute") {
        Ints from(i.size());
        for (std::size_t d = 0; d < i.size(); ++d)
          from[static_cast<std::size_t>(ints("order")[d])] = i[d];
        return at(in(0), from);
      }
      if (k == "flip")
        for (const std::int64_t a : ints("axes")) {
          const auto d = static_cast<std::size_t>(a);
          i[d] = shape[d] - 1 - i[d];
        }
      for (std::size_t d = 0; pads && d < i.size(); ++d) {
        i[d] -= ints("before")[d];
        const std::int64_t n = shape[d];
        if (k == "pad" && (i[d] < 0 || i[d] >= n)) return number("value");
        if (k == "pad_reflect") i[d] = i[d] < 0 ? -i[d] : i[d] >= n ? 2 * n - 2 - i[d] : i[d];
        if (k == "pad_replicate") i[d] = std::clamp<std::int64_t>(i[d], 0, n - 1);
        if (k == "pad_circular") i[d] = (i[d] % n + n) % n;
      }
      return at(in(0), i);
    });
  }

  Array concat(std::size_t axis) {
    return make(out_, [&](Ints i) {
      std::size_t slot = 0;
      while (i[axis] >= in(slot).shape[axis]) i[axis] -= in(slot++).shape[axis];
      return at(in(slot), i);
    });
  }

  Array scatter_add(std::size_t axis) {
    Array y = in(0);
    for_each(in(1).shape, [&](Ints i) {
      const double value = at(in(2), i);
      i[axis] = static_cast<std::int64_t>(at(in(1), i));
      std::int64_t to = 0;
      for (std::size_t d = 0; d < i.size(); ++d) to = to * y.shape[d] + i[d];
      y.values[static_cast<std::size_t>(to)] += value;
    });
    return y;
  }

  // Embedding: weight, ids; take_rows: x, index.
  Array rows(const std::string&) {
    const Array &table = in(0), &ids = in(1);
    const std::int64_t row = product(table.shape) / table.shape[0];
    Array y;
    for (const double id : ids.values)
      for (std::int64_t c = 0; c < row; ++c)
        y.values.push_back(
            table.values[static_cast<std::size_t>(static_cast<std::int64_t>(id) * row + c)]);
    return y;
  }

  // Calls fold(elements) for every output; the elements are those of the reduced axes.
  Array folded(const Ints& axes, const std::function<double(const std::vector<double>&)>& fold) {
    std::map<Ints, std::vector<double>> groups;
    const Array& x = in(0);
    std::size_t e = 0;
    for_each(x.shape, [&](const Ints& index) {
      Ints key = index;
      for (const std::int64_t axis : axes) key[static_cast<std::size_t>(axis)] = 0;
      groups[key].push_back(x.values[e++]);
    });
    Array y;
    for (const auto& [key, elements] : groups) y.values.push_back(fold(elements));
    return y;
  }

  static double sum(const std::vector<double>& x) {
    return std::accumulate(x.begin(), x.end(), 0.0);
  }
  static double squared_distance(const std::vector<double>& x) {
    const double mean = sum(x) / static_cast<double>(x.size());
    double total = 0;
    for (const double v : x) total += (v - mean) * (v - mean);
    return total;
  }

  Array reduction(const std::string& k) {
    using Elements = std::vector<double>;
    const Ints axes = ints("axes"), axis{integer("axis")};
    if (k == "sum") return folded(axes, sum);
    if (k == "mean")
      return folded(axes, [](const Elements& x) { return sum(x) / static_cast<double>(x.size()); });
    if (k == "amax")
      return folded(axes, [](const Elements& x) { return *std::max_element(x.begin(), x.end()); });
    if (k == "amin")
      return folded(axes, [](const Elements& x) { return *std::min_element(x.begin(), x.end()); });
    if (k == "prod")
      return folded(axes, [](const Elements& x) {
        return std::accumulate(x.begin(), x.end(), 1.0, std::multiplies<>());
      });
    if (k == "var")
      return folded(axes, [&](const Elements& x) {
        return squared_distance(x) /
               static_cast<double>(static_cast<std::int64_t>(x.size()) - integer("correction", 1));
      });
    if (k == "logsumexp")
      return folded(axes, [](const Elements& x) {
        double total = 0;
        for (const double v : x) total += std::exp(v);
        return std::log(total);
      });
    if (k == "argmax" || k == "argmin")
      return folded(axis, [&](const Elements& x) {
        const auto best = k == "argmax" ? std::max_element(x.begin(), x.end())
                                        : std::min_element(x.begin(), x.end());
        return static_cast<double>(best - x.begin());
      });
    if (k == "cumsum")
      return make(out_, [&](Ints i) {
        double total = 0;
        for (std::int64_t& at_axis = i[static_cast<std::size_t>(axis[0])]; at_axis >= 0; --at_axis)
          total += at(in(0), i);
        return total;
      });
    return {};
  }

  // --- Normalisation.

  // The elements that are normalised together with the one at an index have this key.
  Array normalised(const std::function<Ints(const Ints&)>& key, double eps, bool centred) {
    std::map<Ints, std::vector<double>> groups;
    const Array& x = in(0);
    for_each(x.shape, [&](const Ints& i) { groups[key(i)].push_back(at(x, i)); });
    return make(x.shape, [&](const Ints& i) {
      const std::vector<double>& group = groups[key(i)];
      const double n = static_cast<double>(group.size());
      const double mean = centred ? sum(group) / n : 0.0;
      double squares = 0;
      for (const double v : group) squares += (v - mean) * (v - mean);
      return (at(x, i) - mean) / std::sqrt(squares / n + eps);
    });
  }

  Array affine(Array y, bool channels) {
    std::size_t e = 0;
    for_each(out_, [&](const Ints& i) {
      const Ints place = channels ? Ints{i[1]} : i;
      if (has(1)) y.values[e] *= at(in(1), place);
      if (has(2)) y.values[e] += at(in(2), place);
      ++e;
    });
    return y;
  }

  Array norm(const std::string& k) {
    const double eps = number("eps");
    const std::size_t rank = out_.size();
    const auto kept = rank - static_cast<std::size_t>(integer("axes"));
    const auto front = [&](const Ints& i) {
      return Ints(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(kept));
    };
    if (k == "batch_norm")
      return affine(normalised([](const Ints& i) { return Ints{i[1]}; }, eps, true), true);
    if (k == "layer_norm") return affine(normalised(front, eps, true), false);
    if (k == "rms_norm") return affine(normalised(front, eps, false), false);
    if (k == "group_norm") {
      const std::int64_t size = out_[1] / integer("groups");
      return affine(normalised(
                        [&](const Ints& i) {
                          return Ints{i[0], i[1] / size};
                        },
                        eps, true),
                    true);
    }
    if (k == "softmax" || k == "log_softmax") {
      const Array y = softmax(in(0), static_cast<std::size_t>(integer("axis")));
      if (k == "softmax") return y;
      return make(out_, [&](const Ints& i) { return std::log(at(y, i)); });
    }
    return {};
  }

  static Array softmax(const Array& x, std::size_t axis) {
    return make(x.shape, [&](const Ints& i) {
      double total = 0;
      Ints other = i;
      for (other[axis] = 0; other[axis] < x.shape[axis]; ++other[axis])
        total += std::exp(at(x, other) - at(x, i));
      return 1 / total;
    });
  }

  // --- Layers.

  Array layer(const std::string& k) {
    if (k == "linear")
      return make(out_, [&](Ints i) {
        double total = has(2) ? at(in(2), {i.back()}) : 0.0;
        const std::int64_t o = i.back();
        for (i.back() = 0; i.back() < in(1).shape[1]; ++i.back())
          total += at(in(0), i) * at(in(1), {o, i.back()});
        return total;
      });
    if (k == "image_linear")
      return make(out_, [&](const Ints& i) {
        double total = has(2) ? at(in(2), {i[1]}) : 0.0;
        const std::int64_t columns = in(1).shape[1];
        for (std::int64_t c = 0; c < columns; ++c)
          total +=
              in(0).values[static_cast<std::size_t>(i[0] * columns + c)] * at(in(1), {i[1], c});
        return total;
      });
    if (k == "matmul")
      return make(out_, [&](const Ints& i) {
        Ints a = i, b = i;
        double total = 0;
        for (std::int64_t c = 0; c < in(0).shape.back(); ++c) {
          a.back() = c;
          b[b.size() - 2] = c;
          total += at(in(0), a) * at(in(1), b);
        }
        return total;
      });
    if (k == "conv") return make(out_, [&](const Ints& i) { return conv(i); });
    if (k == "conv_transpose") return conv_transpose();
    if (k == "attention") return attention();
    if (k == "lstm" || k == "gru") return recurrent(k == "lstm");
    if (k == "max_pool" || k == "avg_pool")
      return make(out_, [&](const Ints& i) { return pool(i); });
    if (k == "adaptive_avg_pool" || k == "adaptive_max_pool")
      return make(out_, [&](const Ints& i) { return adaptive(i); });
    if (k == "resize") return resize();
    return {};
  }

  double conv(const Ints& i) {
    const Array &x = in(0), &w = in(1);
    const std::int64_t per_group = w.shape[1], group = i[1] / (w.shape[0] / integer("groups", 1));
    double total = has(2) ? at(in(2), {i[1]}) : 0.0;
    for_each(Ints(w.shape.begin() + 1, w.shape.end()), [&](const Ints& tap) {
      Ints from{i[0], group * per_group + tap[0]}, weight{i[1], tap[0]};
      for (std::size_t d = 0; d + 2 < x.shape.size(); ++d) {
        from.push_back(i[d + 2] * ints("stride")[d] - ints("padding")[d] +
                       tap[d + 1] * ints("dilation")[d]);
        weight.push_back(tap[d + 1]);
        if (from.back() < 0 || from.back() >= x.shape[d + 2]) return;
      }
      total += at(x, from) * at(w, weight);
    });
    return total;
  }

  // Every input pixel adds its products to the output pixels that it reaches.
  Array conv_transpose() {
    const Array &x = in(0), &w = in(1);
    const std::int64_t groups = integer("groups", 1), per_group = x.shape[1] / groups;
    Array y = make(out_, [&](const Ints& i) { return has(2) ? at(in(2), {i[1]}) : 0.0; });
    for_each(x.shape, [&](const Ints& i) {
      for_each(Ints(w.shape.begin() + 1, w.shape.end()), [&](const Ints& tap) {
        Ints weight{i[1]};
        weight.insert(weight.end(), tap.begin(), tap.end());
        std::int64_t to = i[0] * out_[1] + i[1] / per_group * w.shape[1] + tap[0];
        for (std::size_t d = 0; d + 2 < out_.size(); ++d) {
          const std::int64_t place =
              i[d + 2] * ints("stride")[d] - ints("padding")[d] + tap[d + 1] * ints("dilation")[d];
          if (place < 0 || place >= out_[d + 2]) return;
          to = to * out_[d + 2] + place;
        }
        y.values[static_cast<std::size_t>(to)] += at(x, i) * at(w, weight);
      });
    });
    return y;
  }

  double pool(const Ints& i) {
    const Array& x = in(0);
    double best = -1e300, total = 0, cells = 0;
    for_each(ints("kernel"), [&](const Ints& tap) {
      Ints from{i[0], i[1]};
      bool inside = true, padding = true;
      for (std::size_t d = 0; d < tap.size(); ++d) {
        const std::int64_t n = x.shape[d + 2], p = ints("padding")[d];
        from.push_back(i[d + 2] * ints("stride")[d] - p +
                       tap[d] * (node_->kind == "max_pool" ? ints("dilation")[d] : 1));
        inside = inside && from.back() >= 0 && from.back() < n;
        padding = padding && from.back() < n + p;
      }
      if (inside || (padding && get<bool>("count_include_pad", true))) ++cells;
      if (!inside) return;
      best = std::max(best, at(x, from));
      total += at(x, from);
    });
    return node_->kind == "max_pool" ? best : total / cells;
  }

  double adaptive(const Ints& i) {
    const Array& x = in(0);
    Ints first, size;
    for (std::size_t d = 2; d < i.size(); ++d) {
      first.push_back(i[d] * x.shape[d] / out_[d]);
      size.push_back(((i[d] + 1) * x.shape[d] + out_[d] - 1) / out_[d] - first.back());
    }
    double total = 0, best = -1e300;
    for_each(size, [&](const Ints& cell) {
      Ints from{i[0], i[1]};
      for (std::size_t d = 0; d < cell.size(); ++d) from.push_back(first[d] + cell[d]);
      total += at(x, from);
      best = std::max(best, at(x, from));
    });
    return node_->kind == "adaptive_max_pool" ? best : total / static_cast<double>(product(size));
  }

  // The weight of an element at a distance from the place that is read.
  double resize_weight(double distance) const {
    const double d = std::abs(distance), a = -0.75;
    if (get<std::string>("mode") == "linear") return std::max(0.0, 1.0 - d);
    if (d < 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
    return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0.0;
  }

  // The place along an axis that output i reads.
  double resize_place(std::int64_t i, std::int64_t size, std::int64_t outputs) const {
    const double n = static_cast<double>(size), m = static_cast<double>(outputs);
    const double at = static_cast<double>(i);
    const std::string mode = get<std::string>("mode");
    if (mode == "nearest") return std::floor(at * n / m);
    if (get<bool>("align_corners")) return outputs == 1 ? 0.0 : at * (n - 1) / (m - 1);
    const double place = (at + 0.5) * n / m - 0.5;
    return mode == "linear" ? std::max(place, 0.0) : place;
  }

  // One axis after the other, with every element of the axis; those outside are the outermost ones.
  Array resize() {
    Array y = in(0);
    for (std::size_t d = 2; d < out_.size(); ++d) {
      const std::int64_t size = y.shape[d];
      Ints shape = y.shape;
      shape[d] = out_[d];
      y = make(shape, [&](Ints i) {
        const double place = resize_place(i[d], size, out_[d]);
        double total = 0;
        for (std::int64_t e = -2; e < size + 2; ++e) {
          i[d] = std::clamp<std::int64_t>(e, 0, size - 1);
          const double weight = get<std::string>("mode") == "nearest"
                                    ? (static_cast<double>(e) == place ? 1.0 : 0.0)
                                    : resize_weight(place - static_cast<double>(e));
          total += weight * at(y, i);
        }
        return total;
      });
    }
    return y;
  }

  Array attention() {
    const Array &q = in(0), &k = in(1), &v = in(2);
    const std::int64_t shared = q.shape[1] / k.shape[1];
    const Array scores = make({q.shape[0], q.shape[1], q.shape[2], k.shape[2]}, [&](const Ints& i) {
      double total = 0;
      for (std::int64_t c = 0; c < q.shape[3]; ++c)
        total += at(q, {i[0], i[1], i[2], c}) * at(k, {i[0], i[1] / shared, i[3], c});
      total *= number("scale");
      const bool is_bool = has(3) && type_of(node_->inputs[3]) == ValueType::kBool;
      Ints seen = i;  // masks are used in turn
      if (has(3) && in(3).shape.size() == 4) seen[0] %= in(3).shape[0];
      if (has(3)) total += is_bool ? (at(in(3), seen) != 0 ? 0.0 : -1e9) : at(in(3), seen);
      if (has(4)) total += at(in(4), i);
      if (has(5) && static_cast<double>(i[3]) >= at(in(5), {i[0]})) return -1e9;
      if (has(6) && static_cast<double>(i[3]) < at(in(6), {i[0], i[2]})) return -1e9;
      return get<bool>("causal") && i[3] > i[2] ? -1e9 : total;
    });
    const Array p = softmax(scores, 3);
    return make(out_, [&](const Ints& i) {
      double total = 0;
      for (std::int64_t s = 0; s < k.shape[2]; ++s)
        total += at(p, {i[0], i[1], i[2], s}) * at(v, {i[0], i[1] / shared, s, i[3]});
      return total;
    });
  }

  // One step for all sequences: the gates' parts [n,gates*units] from the input and from the state.
  Array recurrent(bool lstm) {
    const Array &x = in(0), &w = in(1);
    const std::int64_t times = x.shape[0], units = w.shape[1];
    const Array zero{{x.shape[1], units},
                     std::vector<double>(static_cast<std::size_t>(x.shape[1] * units), 0.0)};
    Array h = has(3) ? in(3) : zero, c = has(4) ? in(4) : zero;
    std::vector<Array> states(static_cast<std::size_t>(times) + 1);
    for (std::int64_t step = 0; step < times; ++step) {
      const std::int64_t t = get<bool>("reverse") ? times - 1 - step : step;
      const Array before = h;
      const auto from_state = [&](std::int64_t n, std::int64_t row) {
        double total = has(2) ? at(in(2), {row}) : 0.0;
        for (std::int64_t k = 0; k < units; ++k) total += at(before, {n, k}) * at(w, {row, k});
        return total;
      };
      const auto gate = [&](const Ints& i, std::int64_t g) {
        return at(x, {t, i[0], g * units + i[1]}) + from_state(i[0], g * units + i[1]);
      };
      if (lstm) {
        c = make(zero.shape, [&](const Ints& i) {
          return sigmoid(gate(i, 1)) * at(c, i) + sigmoid(gate(i, 0)) * std::tanh(gate(i, 2));
        });
        h = make(zero.shape,
                 [&](const Ints& i) { return sigmoid(gate(i, 3)) * std::tanh(at(c, i)); });
      } else {
        h = make(zero.shape, [&](const Ints& i) {
          const double z = sigmoid(gate(i, 1)), reset = sigmoid(gate(i, 0));
          const double n = std::tanh(at(x, {t, i[0], 2 * units + i[1]}) +
                                     reset * from_state(i[0], 2 * units + i[1]));
          return (1 - z) * n + z * at(before, i);
        });
      }
      states[static_cast<std::size_t>(t)] = h;
    }
    states.back() = c;
    return make(out_, [&](const Ints& i) {
      return at(states[static_cast<std::size_t>(i[0])], {i[1], i[2]});
    });
  }

  // --- Losses.

  Array loss(const std::string& k) {
    if (k == "cross_entropy") return class_loss(log_of(softmax(in(0), 1)));
    if (k == "regularised_cross_entropy") return regularised_loss();
    if (k == "nll") return class_loss(in(0));
    if (k == "cross_entropy_soft") {
      const Array logs = log_of(softmax(in(0), 1));
      double total = 0;
      for (std::size_t e = 0; e < logs.values.size(); ++e)
        total -= logs.values[e] * in(1).values[e];
      return reduced(total, static_cast<double>(product(logs.shape) / logs.shape[1]));
    }
    double total = 0;
    std::size_t e = 0;
    bool known = true;
    for_each(in(0).shape, [&](const Ints& i) {
      total += element_loss(k, in(0).values[e], in(1).values[e], i, known);
      ++e;
    });
    if (!known) return {};
    const bool per_batch = get<std::string>("reduction") == "batchmean";
    return reduced(total, static_cast<double>(per_batch ? in(0).shape[0] : product(in(0).shape)));
  }

  Array reduced(double total, double count) const {
    return {{}, {get<std::string>("reduction") == "sum" ? total : total / count}};
  }
  static Array log_of(const Array& x) {
    return make(x.shape, [&](const Ints& i) { return std::log(at(x, i)); });
  }

  Array class_loss(const Array& logs) {
    const double smoothing = number("label_smoothing"),
                 classes = static_cast<double>(logs.shape[1]);
    double total = 0, weights = 0;
    for_each(in(1).shape, [&](const Ints& i) {
      const auto label = static_cast<std::int64_t>(at(in(1), i));
      if (label == integer("ignore_index", -100)) return;
      Ints index = i;
      index.insert(index.begin() + 1, label);
      const double w = has(2) ? at(in(2), {label}) : 1.0;
      total -= (1 - smoothing) * w * at(logs, index);
      weights += w;
      for (index[1] = 0; index[1] < logs.shape[1]; ++index[1])
        total -= smoothing / classes * (has(2) ? at(in(2), {index[1]}) : 1.0) * at(logs, index);
    });
    return reduced(total, weights);
  }

  Array regularised_loss() {
    const Array logs = log_of(softmax(in(0), 1));
    const double smoothing = number("label_smoothing"),
                 classes = static_cast<double>(logs.shape[1]);
    double total = 0, rows = 0;
    for_each(in(1).shape, [&](const Ints& i) {
      Ints index = i;
      index.insert(index.begin() + 1, static_cast<std::int64_t>(at(in(1), i)));
      const double lse = at(in(0), index) - at(logs, index);
      total += number("z_loss") * lse * lse - (1 - smoothing) * at(logs, index);
      for (index[1] = 0; index[1] < logs.shape[1]; ++index[1])
        total -= smoothing / classes * at(logs, index);
      ++rows;
    });
    return {{}, {total / rows}};
  }

  double element_loss(const std::string& k, double x, double t, const Ints& i, bool& known) {
    const double d = std::abs(x - t);
    if (k == "mse") return d * d;
    if (k == "l1") return d;
    if (k == "smooth_l1" || k == "huber") {
      const double edge = number(k == "huber" ? "delta" : "beta");
      const double smooth = d < edge ? 0.5 * d * d / edge : d - 0.5 * edge;
      return k == "huber" ? smooth * edge : smooth;
    }
    if (k == "bce") return -t * std::log(x) - (1 - t) * std::log(1 - x);
    if (k == "bce_with_logits") {
      const double positive = has(3) ? at(in(3), i) : 1.0, w = has(2) ? at(in(2), i) : 1.0;
      return w * (-positive * t * std::log(sigmoid(x)) - (1 - t) * std::log(1 - sigmoid(x)));
    }
    if (k == "kl_div")
      return get<bool>("log_target") ? std::exp(t) * (t - x) : t > 0 ? t * (std::log(t) - x) : 0.0;
    known = false;
    return 0.0;
  }

  const ModelProgram& p_;
  std::int64_t batch_;
  gpu::DropoutKey key_;
  const ModelNode* node_ = nullptr;
  Ints out_;
};

}  // namespace

std::vector<Array> evaluate_program(const ModelProgram& program, std::int64_t batch,
                                    const Arrays& given, const gpu::DropoutKey& key) {
  Evaluation evaluation(program, batch, key);
  evaluation.run(given);
  return std::move(evaluation.values);
}

}  // namespace es::test
