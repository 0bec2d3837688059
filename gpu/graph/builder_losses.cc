// GraphBuilder: losses.
#include "gpu/graph/builder.h"

namespace es::gpu {

bool GraphBuilder::begin_loss(const char* kind, const std::string& name) {
  if (!failed() && graph_.mean_loss != kNoTensor) fail(kind, name, "the model has a loss already");
  return !failed();
}

// `kept` are the outputs before the row losses. `rows` is the number of row losses.
void GraphBuilder::end_loss(Op op, const std::vector<TensorShape>& kept, std::int64_t rows) {
  if (rows % graph_.batch != 0) {
    fail(op_name(op.kind), op.name,
         std::to_string(rows) + " losses are not a multiple of the batch size " +
             std::to_string(graph_.batch));
    return;
  }
  graph_.ops.push_back(std::move(op));
  for (const TensorShape& shape : kept) emit_extra(shape);
  graph_.rows_per_sample = rows / graph_.batch;
  graph_.row_loss = emit_extra({graph_.batch, 1, 1, graph_.rows_per_sample});
  graph_.mean_loss = emit_extra({});
}

void GraphBuilder::cross_entropy(const std::string& name, TensorId logits, TensorId labels) {
  constexpr const char* kKind = "cross_entropy";
  if (!begin_loss(kKind, name) || !dense_floats(kKind, name, {logits})) return;
  const TensorShape in = graph_.shape(logits);
  if (in.c < 2) fail(kKind, name, "logits " + shape_text(in) + " need at least 2 classes");
  if (tensor(labels).type != ElementType::kI32 || graph_.shape(labels).count() != in.rows())
    fail(kKind, name,
         "labels " + shape_text(graph_.shape(labels)) + " must be " + std::to_string(in.rows()) +
             " integers, one for each row of the logits " + shape_text(in));
  if (note(labels).high >= in.c)
    fail(kKind, name,
         "labels up to " + std::to_string(note(labels).high) + " do not fit the " +
             std::to_string(in.c) + " classes of the logits " + shape_text(in));
  if (failed()) return;
  end_loss({.kind = OpKind::kCrossEntropy, .name = name, .in = {logits, labels}}, {in}, in.rows());
}

void GraphBuilder::element_loss(OpKind kind, const std::string& name, TensorId x,
                                TensorId targets) {
  if (!begin_loss(op_name(kind), name) || !dense_floats(op_name(kind), name, {x, targets})) return;
  const TensorShape in = graph_.shape(x);
  if (graph_.shape(targets).count() != in.count() || tensor(targets).needs_grad)
    fail(op_name(kind), name,
         "targets " + shape_text(graph_.shape(targets)) + " must be " + std::to_string(in.count()) +
             " given numbers, as many as its input " + shape_text(in) + " has");
  if (failed()) return;
  end_loss({.kind = kind, .name = name, .in = {x, targets}}, {}, in.count());
}

void GraphBuilder::bce_with_logits(const std::string& name, TensorId logits, TensorId targets) {
  element_loss(OpKind::kBce, name, logits, targets);
}

void GraphBuilder::mse(const std::string& name, TensorId x, TensorId targets) {
  element_loss(OpKind::kMse, name, x, targets);
}

void GraphBuilder::yolo(const std::string& name, const std::vector<TensorId>& outputs,
                        TensorId boxes, const YoloShape& shape, std::int64_t image_h,
                        std::int64_t image_w) {
  if (!begin_loss("yolo", name) || !dense_floats("yolo", name, outputs) ||
      !floats("yolo", name, {boxes}))
    return;
  if (outputs.size() != 3) return void(fail("yolo", name, "needs three outputs"));
  const std::int64_t box_words = graph_.shape(boxes).count();
  if (box_words % (5 * graph_.batch) != 0)
    return void(
        fail("yolo", name, "boxes " + shape_text(graph_.shape(boxes)) + " must be [n,M,1,5]"));
  Op op{.kind = OpKind::kYolo, .name = name, .in = outputs};
  op.in.push_back(boxes);
  op.yolo = shape;
  op.yolo.batch = graph_.batch;
  op.yolo.boxes = box_words / (5 * graph_.batch);
  op.yolo.image_h = image_h;
  op.yolo.image_w = image_w;
  std::vector<TensorShape> gradients;
  for (std::size_t s = 0; s < 3; ++s) {
    const TensorShape grid = graph_.shape(outputs[s]);
    if (grid.n != graph_.batch || grid.c != 3 * (5 + shape.classes))
      return void(fail("yolo", name,
                       "output " + shape_text(grid) + " must be [" + std::to_string(graph_.batch) +
                           ",h,w,3*(5+" + std::to_string(shape.classes) + ")]"));
    op.yolo.h[s] = grid.h;
    op.yolo.w[s] = grid.w;
    gradients.push_back(grid);
  }
  end_loss(std::move(op), gradients, graph_.batch);
}

}  // namespace es::gpu
