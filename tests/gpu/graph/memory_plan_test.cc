#include "gpu/graph/memory_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "gpu/graph/builder.h"
#include "gpu/graph/fuse.h"
#include "gpu/graph/op_results.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/models/models.h"
#include "tests/gpu/models/samples_by_formula.h"
#include "tests/gpu/support/step_rig.h"
#include "tests/support/seed.h"

TEST_SUITE("gpu/graph/memory_plan") {
  using namespace es::gpu;
  using es::Result;

  std::int64_t round_up(std::int64_t n) {
    return (n + 15) / 16 * 16;
  }

  TEST_CASE("blocks that are live together never overlap, others may") {
    std::mt19937_64 random(es::test::seed("memory_plan"));
    for (int trial = 0; trial < 50; ++trial) {
      std::vector<LiveBlock> blocks(40);
      for (LiveBlock& b : blocks) {
        b.first = static_cast<std::int64_t>(random() % 30);
        b.last = b.first + static_cast<std::int64_t>(random() % 8);
        b.floats = 1 + static_cast<std::int64_t>(random() % 500);
      }
      const std::vector<std::int64_t> offset = place_blocks(blocks);
      std::int64_t end = 0;
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        CHECK(offset[i] % 16 == 0);
        end = std::max(end, offset[i] + round_up(blocks[i].floats));
        for (std::size_t j = 0; j < i; ++j) {
          const bool together =
              blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
          const bool apart = offset[i] + blocks[i].floats <= offset[j] ||
                             offset[j] + blocks[j].floats <= offset[i];
          CHECK((apart || !together));
        }
      }
      CHECK(end >= live_peak(blocks));
      CHECK(end <= 2 * live_peak(blocks));
    }
  }

  TEST_CASE("blocks lie where placed ones are not needed yet, first where one is needed soonest") {
    const std::vector<PlacedBlock> placed{{{64, 9, 20}, 0}, {{64, 5, 20}, 64}, {{16, 0, 20}, 128}};
    const std::int64_t behind = 144;
    const auto place_of = [&](std::int64_t floats, std::int64_t first, std::int64_t last) {
      return place_blocks(std::vector<LiveBlock>{{floats, first, last}}, placed).front();
    };
    CHECK(place_of(64, 1, 4) == 64);
    CHECK(place_of(16, 1, 4) == 64 + 48);
    CHECK(place_of(64, 1, 5) == 0);
    CHECK(place_of(128, 1, 4) == 0);
    CHECK(place_of(128, 1, 5) == behind);
    CHECK(place_of(64, 9, 9) == behind);
    CHECK(place_of(144, 1, 1) == behind);
  }

  TEST_CASE("the peak counts the blocks that are live at one operator") {
    CHECK(live_peak(std::vector<LiveBlock>{{16, 0, 2}, {32, 2, 3}, {64, 3, 4}}) == 96);
    CHECK(live_peak(std::vector<LiveBlock>{{1, 0, 0}, {1, 1, 1}}) == 16);
  }

  // Executes the plan symbolically: for every word of the arena and of the gradient array it stores
  // which tensor was written there.
  class PlanCheck {
   public:
    explicit PlanCheck(const Program& program, GradientsInForward early = GradientsInForward::kNo)
        : program_(program),
          graph_(program.graph),
          plan_(plan_memory(program, early)),
          evaluated_(evaluation_tensors(graph_)),
          outside_(graph_.tensors.size(), false) {
      for (const TensorId t : graph_.inputs) outside_[t] = true;
      for (const Constant& c : graph_.constants) outside_[c.tensor] = true;
      for (const Op& op : graph_.ops)
        if (op_def(op.kind).in_params) outside_[op.out[0]] = true;
    }

    const MemoryPlan& run() {
      begin(plan_.step);
      for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
        execute(graph_.ops[i], RunMode::kTrain);
        if (i + 1 == program_.first_backward) check_results(RunMode::kTrain);
      }
      for (ParamId p = 0; p < std::ssize(graph_.table.trained()); ++p)
        CHECK_MESSAGE(has(gradient(p), gradient_mark(p)), graph_.table[p].name);
      begin(plan_.evaluation);
      for (std::size_t i = 0; i < program_.first_backward; ++i)
        execute(graph_.ops[i], RunMode::kEvaluate);
      check_results(RunMode::kEvaluate);
      CHECK(plan_.arena_floats >= plan_.live_peak_floats);
      return plan_;
    }

   private:
    using Words = std::span<TensorId>;

    void begin(const TensorPlaces& places) {
      places_ = &places;
      arena_.assign(static_cast<std::size_t>(plan_.arena_floats), kNoTensor);
      gradients_.assign(static_cast<std::size_t>(graph_.table.trained_floats()), kNoTensor);
      content_.resize(graph_.tensors.size());
      std::iota(content_.begin(), content_.end(), 0);
    }
    static bool has(Words words, TensorId mark) {
      return std::all_of(words.begin(), words.end(), [&](TensorId w) { return w == mark; });
    }
    // What stands in the place of a complete gradient, with its padding.
    static TensorId gradient_mark(ParamId p) { return -2 - p; }
    Words gradient(ParamId p) {
      const std::int64_t begin = graph_.table[p].offset;
      return Words(gradients_).subspan(begin, graph_.table.padded_end(p) - begin);
    }
    // The words of a tensor; none if it has no place in this run.
    Words place(TensorId t) {
      const Tensor& tensor = graph_.tensors[t];
      const std::int64_t count = tensor.shape.count();
      const std::int64_t words = tensor.bf16                       ? (count + 1) / 2
                                 : tensor.type == ElementType::kU8 ? (count + 3) / 4
                                                                   : count;
      if (const ParamId p = plan_.gradient_of[plan_.owner[t]]; p != kNoParam) {
        CHECK(places_->in_arena[t] == TensorPlaces::kOutside);
        CHECK(places_->in_gradients[t] == TensorPlaces::kOutside);
        REQUIRE(words == graph_.table[p].count);
        return gradient(p).first(words);
      }
      for (const auto& [offset, memory] :
           {std::pair(places_->in_arena[t], Words(arena_)),
            std::pair(places_->in_gradients[t], Words(gradients_))}) {
        if (offset == TensorPlaces::kOutside) continue;
        CHECK(offset % 16 == 0);
        REQUIRE(offset >= 0);
        REQUIRE(offset + words <= std::ssize(memory));
        return memory.subspan(offset, words);
      }
      return {};
    }
    bool intact(TensorId t) {
      if (outside_[plan_.owner[t]]) return true;
      const Words words = place(t);
      return !words.empty() && has(words, content_[t]);
    }
    void execute(const Op& op, RunMode mode) {
      for (const TensorId t : op.in) CHECK_MESSAGE(intact(t), op.name << " " << op_name(op.kind));
      if (op_def(op.kind).in_params) return;  // parameters, which are outside
      for (const TensorId t : op.out) {
        if (op.kind == OpKind::kView) {
          content_[t] = content_[op.in[0]];  // A view has the content of its base.
          CHECK(places_->in_arena[t] == places_->in_arena[op.in[0]]);
          CHECK(places_->in_gradients[t] == places_->in_gradients[op.in[0]]);
          CHECK(plan_.owner[t] == plan_.owner[op.in[0]]);
          continue;
        }
        const bool is_gradient = plan_.gradient_of[plan_.owner[t]] != kNoParam;
        // Some outputs are written in one of the runs only.
        if (mode == RunMode::kTrain ? evaluated_[t] : is_gradient) continue;
        const Words words = place(t);
        if (mode == RunMode::kTrain) REQUIRE(!words.empty());
        std::fill(words.begin(), words.end(), t);
      }
      if (mode == RunMode::kEvaluate) return;
      for (const ParamId p : {op_def(op.kind).writes_weight_grad ? op.weight : kNoParam,
                              op_def(op.kind).writes_bias_grad ? op.bias : kNoParam})
        if (p != kNoParam) std::ranges::fill(gradient(p), gradient_mark(p));
    }
    // The results of an evaluation exist after the last forward operator, and those of a step that
    // it writes.
    void check_results(RunMode mode) {
      for (const TensorId t : graph_.outputs)
        if (mode == RunMode::kEvaluate || !evaluated_[t]) CHECK(intact(t));
      CHECK(intact(graph_.row_loss));
      CHECK(intact(graph_.mean_loss));
    }

    const Program& program_;
    const Graph& graph_;
    MemoryPlan plan_;
    std::vector<bool> evaluated_, outside_;  // By tensor.
    // Of the run that is executed.
    const TensorPlaces* places_ = nullptr;
    std::vector<TensorId> arena_, gradients_;  // By word.
    std::vector<TensorId> content_;            // By tensor.
  };

  void check_waste(const MemoryPlan& plan) {
    CHECK(plan.arena_floats <= plan.live_peak_floats + plan.live_peak_floats / 20);
  }

  TEST_CASE(
      "in the plan of every model the operators find their inputs, and little memory is wasted") {
    for (const std::string model : {"mlp", "small_cnn", "resnet18", "resnet50", "shufflenetv2",
                                    "vgg19", "swin_t", "yolov3", "neumf", "bert", "electra"})
      for (const std::string size : {"tiny", "published"}) {
        CAPTURE(model);
        CAPTURE(size);
        const es::ModelSpec spec{.name = model, .size = size, .classes = 10};
        es::test::SampleSizes sizes;
        sizes.side = 32;
        const Result<Graph> graph =
            build_model(spec, 2, es::test::sample_layout(task_of(spec), sizes));
        REQUIRE_MESSAGE(graph.ok(), graph.error().message);
        const Program program = compile(*graph);
        const MemoryPlan alone = PlanCheck(program).run();
        check_waste(alone);
        const MemoryPlan shared = PlanCheck(program, GradientsInForward::kYes).run();
        CHECK(shared.arena_floats <= alone.arena_floats);
        // Few samples of a large model: activations are smaller than gradients.
        if (model == "bert" && size == "published")
          CHECK(shared.arena_floats * 4 < alone.arena_floats);
      }
  }

  TEST_CASE("the gradient array is memory for a step and for an evaluation, which change no bits") {
    const es::ModelSpec spec{.name = "small_cnn", .size = "tiny", .classes = 10};
    const es::SampleLayout layout = es::test::sample_layout(es::Task::kClassification);
    es::test::StepRig rig(compile(*build_model(spec, 2, layout)), 7);
    const auto fill_gradients = [&](float value) {
      std::fill_n(rig.grads.data(), rig.grads.floats(), value);
    };
    const auto places = [&](const TensorPlaces& run) {
      return std::ranges::any_of(run.in_gradients,
                                 [](std::int64_t at) { return at != TensorPlaces::kOutside; });
    };
    CHECK(places(rig.executor->plan().step));
    CHECK(places(rig.executor->plan().evaluation));
    const std::vector<std::uint32_t> step = rig.step_bits(), evaluation = rig.evaluation_bits();
    fill_gradients(std::numeric_limits<float>::quiet_NaN());
    CHECK(rig.step_bits() == step);
    fill_gradients(std::numeric_limits<float>::quiet_NaN());
    REQUIRE(rig.executor->run_eval(rig.params.data(), rig.input(), rig.grads.data()).ok());
    std::vector<std::uint32_t> found;
    std::vector<TensorId> results = rig.graph().outputs;
    results.push_back(rig.graph().row_loss);
    for (const TensorId t : results)
      for (const float v : rig.executor->values(t))
        found.push_back(std::bit_cast<std::uint32_t>(v));
    CHECK(found == evaluation);
    CHECK(rig.step_bits() == step);
  }

  // A language model whose embedding is also its last layer, or equal to it.
  Graph tied_model(std::int64_t rows, std::int64_t classes, std::int64_t width, bool tied = true) {
    const auto largest = static_cast<int>(classes) - 1;
    GraphBuilder b("tied", 2,
                   {{{"ids", es::FieldType::kI32, rows, 1, 1, 0, largest},
                     {"label", es::FieldType::kI32, rows, 1, 1, 0, largest}}});
    const auto table = [&](const std::string& name) {
      return b.parameter_tensor(b.parameter({.name = name,
                                             .torch_shape = {classes, width},
                                             .order = {.outer = classes * width},
                                             .init = {.bound = 0.5F}}),
                                {classes, width});
    };
    const auto with_table = [&](OpKind kind, TensorId x, TensorId weight, std::int64_t features) {
      return b.apply({.kind = kind,
                      .name = op_name(kind),
                      .in = {x, weight},
                      .tensors = {.weight = 1},
                      .features = features});
    };
    const TensorId words = table("words");
    TensorId x = with_table(OpKind::kEmbedding, b.input("ids"), words, width);
    x = b.gelu("gelu", b.linear("hidden", x, {.out = width}));
    x = with_table(OpKind::kLinear, x, tied ? words : table("head"), classes);
    b.cross_entropy("loss", x, b.input("label"));
    Graph graph = *b.finish({x});
    // Without logits, which only an evaluation would write.
    graph.outputs = {graph.row_loss};
    return graph;
  }

  TEST_CASE("a gradient that two layers add up needs no memory beside the gradient array") {
    constexpr std::int64_t kRows = 600, kClasses = 900, kWidth = 40;
    for (const std::int64_t chunked : {std::int64_t{1}, INT64_MAX}) {
      const Program program = compile(tied_model(kRows, kClasses, kWidth), chunked);
      check_waste(PlanCheck(program).run());
      PlanCheck(program, GradientsInForward::kYes).run();
      const MemoryPlan plan = plan_memory(program, GradientsInForward::kYes);
      const MemoryPlan later = plan_memory(program);
      const bool begins_in_forward = chunked == 1;
      for (const Op& op : program.graph.ops)
        for (const TensorId t : op.out) {
          if (program.graph.shape(t) != TensorShape{kClasses, kWidth} || op_def(op.kind).in_params)
            continue;
          CHECK(plan.gradient_of[plan.owner[t]] == 0);
          // An executor without a gradient array in the forward pass keeps a sum that begins there.
          CHECK((later.gradient_of[later.owner[t]] == kNoParam) == begins_in_forward);
        }
    }
  }

  TEST_CASE("the gradient of a table that two layers share is the sum of two tables' gradients") {
    constexpr std::int64_t kRows = 600, kClasses = 900, kWidth = 40;
    const std::uint64_t seed = es::test::seed("tied gradients");
    for (const es::CpuClass cpu_class : es::supported_cpu_classes())
      for (const std::int64_t chunked : {std::int64_t{1}, INT64_MAX})
        for (const bool bf16 : {false, true}) {
          const auto rig_of = [&](bool tied) {
            Graph graph = tied_model(kRows, kClasses, kWidth, tied);
            graph.bf16 = bf16;
            return es::test::StepRig(compile(std::move(graph), chunked), seed,
                                     {.cpu_class = cpu_class, .threads = 2});
          };
          es::test::StepRig one = rig_of(true), two = rig_of(false);
          const auto at = [](const es::test::StepRig& rig, const std::string& name) {
            for (const ParamInfo& p : rig.graph().table.params())
              if (p.name == name) return p.offset;
            return std::int64_t{-1};
          };
          const auto same = [&](const std::string& of, const std::string& as, std::int64_t count) {
            std::copy_n(one.params.data() + at(one, of), count, two.params.data() + at(two, as));
          };
          two.words = one.words;
          same("words", "words", kClasses * kWidth);
          same("words", "head", kClasses * kWidth);
          same("hidden.weight", "hidden.weight", kWidth * kWidth);
          same("hidden.bias", "hidden.bias", kWidth);
          CHECK(one.run() == two.run());
          const float* const sum = one.grads.data() + at(one, "words");
          const float* const head = two.grads.data() + at(two, "head");
          const float* const words = two.grads.data() + at(two, "words");
          std::int64_t differ = 0;
          for (std::int64_t i = 0; i < kClasses * kWidth; ++i)
            differ += std::bit_cast<std::uint32_t>(sum[i]) !=
                      std::bit_cast<std::uint32_t>(head[i] + words[i]);
          CHECK(differ == 0);
        }
  }

  TEST_CASE("an input and its views stay outside the arena, and nothing is written to them") {
    const es::ModelSpec spec{.name = "mlp", .size = "tiny", .classes = 10};
    const es::SampleLayout layout = es::test::sample_layout(es::Task::kClassification);
    const Program program = compile(*build_model(spec, 2, layout));
    const MemoryPlan plan = plan_memory(program);
    for (const TensorId input : program.graph.inputs) {
      CHECK(plan.step.in_arena[input] == TensorPlaces::kOutside);
      CHECK(plan.owner[input] == input);
    }
    for (const Op& op : program.graph.ops)
      if (op.kind != OpKind::kView)
        for (const TensorId t : op.out) CHECK(plan.step.in_arena[t] != TensorPlaces::kOutside);
  }
}
