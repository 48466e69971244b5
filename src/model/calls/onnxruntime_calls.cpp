#include <array>

#include "model/calls/call_writer.hpp"
#include "model/text.hpp"

// Ops that ONNX Runtime makes of several ones of a model (domain com.microsoft).

namespace driftbound::calls {
namespace {

ValueId activated(CallWriter& call, ValueId x) {
  const std::string activation = call.text("activation", "");
  if (activation.empty()) return x;
  if (activation == "Relu") return call.add(op::Relu{}, {x});
  if (activation == "Sigmoid") return call.add(op::Sigmoid{}, {x});
  if (activation == "Tanh") return call.add(op::Tanh{}, {x});
  refuse("its activation is " + in_quotes(activation));
}

void gelu_of_sum(CallWriter& call, bool is_tanh) {
  ValueId x = call.x(0);
  if (call.is_given(1)) x = call.add(op::Add{}, {x, call.x(1)});
  call.result(0, call.add(op::Gelu{is_tanh}, {x}));
}

void erf_gelu(CallWriter& call) {
  gelu_of_sum(call, false);
}

void tanh_gelu(CallWriter& call) {
  gelu_of_sum(call, true);
}

/// alpha A B, or of their transposes.
void fused_product(CallWriter& call) {
  if (call.truth("transBatchA", false) || call.truth("transBatchB", false)) refuse("it moves the axes of a batch");
  const op::Gemm gemm{call.real("alpha", 1.0), 0.0, call.truth("transA", false), call.truth("transB", false)};
  call.result(0, call.add(gemm, {call.x(0), call.x(1)}));
}

void fused_gemm(CallWriter& call) {
  const op::Gemm gemm{call.real("alpha", 1.0), call.real("beta", 1.0), call.truth("transA", false),
                      call.truth("transB", false)};
  std::vector<ValueId> operands = {call.x(0), call.x(1)};
  if (call.is_given(2) && gemm.beta != 0.0) operands.push_back(call.x(2));
  call.result(0, activated(call, call.add(gemm, operands)));
}

/// Conv, then a fourth operand added, then an activation.
void fused_convolution(CallWriter& call) {
  RecordedCall conv = call.recorded();
  conv.op = "Conv";
  conv.attributes.erase("activation");
  conv.attributes.erase("activation_params");
  if (conv.operands.size() > 3) conv.operands.resize(3);
  ValueId y = add_onnx(call, conv).at(0);
  if (call.is_given(3)) y = call.add(op::Add{}, {y, call.x(3)});
  call.ignore({"activation_params"});
  call.result(0, activated(call, y));
}

/// LayerNormalization of the sum of two operands and a bias; the fourth result is the sum.
void norm_of_sum(CallWriter& call) {
  ValueId x = call.add(op::Add{}, {call.x(0), call.x(1)});
  if (call.is_given(4)) x = call.add(op::Add{}, {x, call.x(4)});
  std::vector<ValueId> operands = {x, call.x(2)};
  if (call.is_given(3)) operands.push_back(call.x(3));
  call.result(0, call.add(op::LayerNormalization{-1, call.real("epsilon", 1e-12)}, operands));
  if (call.has_result(3)) call.result(3, x);
}

constexpr std::array onnxruntime_rules = {
    CallRule{"com.microsoft::BiasGelu", erf_gelu, "Gelu of a sum"},
    CallRule{"com.microsoft::FastGelu", tanh_gelu, "Gelu in its tanh form, of a sum"},
    CallRule{"com.microsoft::FusedConv", fused_convolution, "Conv, then an addend and an activation"},
    CallRule{"com.microsoft::FusedGemm", fused_gemm, "Gemm, then an activation"},
    CallRule{"com.microsoft::FusedMatMul", fused_product, "Gemm over batches"},
    CallRule{"com.microsoft::Gelu", erf_gelu, "Gelu"},
    CallRule{"com.microsoft::SkipLayerNormalization", norm_of_sum, "LayerNormalization of a sum"},
};

}  // namespace

std::span<const CallRule> onnxruntime_calls() {
  return onnxruntime_rules;
}

}  // namespace driftbound::calls
