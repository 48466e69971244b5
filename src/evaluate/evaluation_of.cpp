#include "driftbound/evaluate/evaluation_of.hpp"

#include "model/variant.hpp"

namespace driftbound {
namespace {

using View = std::string_view;

constexpr View by_body = "";

}  // namespace

std::string_view evaluation_of(const Op& op) {
  return std::visit(
      Overloaded{
          [](const OneOf<op::Neg, op::Abs, op::Relu> auto&) -> View { return "exact"; },
          [](const OneOf<op::Floor, op::Ceil, op::Round, op::Sign> auto&) -> View {
            return "exact; undecided where the reference straddles a jump";
          },
          [](const OneOf<op::LeakyRelu, op::PRelu> auto&) -> View { return "one product below 0"; },
          [](const op::Elu&) -> View { return "expm1 and one product below 0"; },
          [](const OneOf<op::Tanh, op::Sigmoid, op::Softplus, op::Sin, op::Cos, op::Exp, op::Erf, op::Log, op::Tan,
                         op::Atan, op::Sinh, op::Cosh> auto&) -> View { return "one call"; },
          [](const op::Pow&) -> View { return "one call, the exponent in double"; },
          [](const OneOf<op::Sqrt, op::Reciprocal, op::Add, op::Sub, op::Mul, op::Div> auto&) -> View {
            return "IEEE 754, one rounding";
          },
          [](const op::Clip&) -> View { return "exact but for limits that round"; },
          [](const op::ThresholdedRelu&) -> View { return "exact; a threshold that rounds has no bound"; },
          [](const op::Cast&) -> View { return "one rounding where the target is narrower"; },
          [](const OneOf<op::Min, op::Max> auto&) -> View { return "exact; NaN where one operand is"; },
          [](const Comparison auto&) -> View { return "exact, 0 for NaN; undecided where both may be equal"; },
          [](const op::Choice&) -> View { return "elements moved; both where the condition is undecided"; },
          [](const OneOf<op::Gemm, op::MatMul> auto&) -> View { return "products, added in the declared order"; },
          [](const op::ReduceSum&) -> View { return "terms added in the declared order"; },
          [](const OneOf<op::ReduceMax, op::ReduceMin> auto&) -> View { return "exact"; },
          [](const op::Softmax&) -> View { return "less the maximum, exp, declared sum, division"; },
          [](const op::Pad&) -> View { return "elements moved; a value that rounds is rounded once"; },
          [](const Selection auto&) -> View { return "elements moved"; },
          [](const OneOf<op::SumOf, op::MinOf, op::MaxOf> auto&) -> View { return "two at a time from the left"; },
          [](const op::MeanOf&) -> View { return "from the left; divides last"; },
          [](const OneOf<op::InstanceNormalization, op::GroupNormalization, op::LayerNormalization> auto&) -> View {
            return "two passes: centred before squaring";
          },
          [](const op::Conv&) -> View { return "filters times windows; bias last"; },
          [](const op::ConvTranspose&) -> View { return "Conv of x spread, kernel reversed"; },
          [](const op::MaxPool&) -> View { return "outside: the nearest one inside"; },
          [](const op::AveragePool&) -> View { return "sum / number of elements that count"; },
          [](const op::Attention&) -> View { return "weights as those of MaskedSoftmax"; },
          [](const op::RotaryEmbedding&) -> View { return "pairs; other coordinates are copied"; },
          [](const op::Einsum&) -> View { return "sums, then MatMuls from the left"; },
          [](const op::Segment&) -> View { return "its steps, one after another"; },
          [](const CompositeFunction auto&) -> View { return by_body; },
          [](const OneOf<op::BatchNormalization, op::RMSNormalization, op::LpNormalization, op::GlobalAveragePool,
                         op::GlobalMaxPool> auto&) -> View { return by_body; },
          [](const CompositeReduction auto&) -> View { return by_body; },
          [](const op::ArgMax&) -> View { return "exact; open where two may be equal"; },
          [](const op::TopK&) -> View { return "exact; open where two may be equal"; },
          [](const op::GridSample&) -> View { return "pixels times weights; 0 elsewhere"; },
          [](const op::LogSoftmax&) -> View { return "less the maximum"; },
          [](const op::MaskedSoftmax&) -> View { return "less the maximum; 0 where masked"; },
      },
      op);
}

}  // namespace driftbound
