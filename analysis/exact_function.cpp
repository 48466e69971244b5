#include "analysis/op_text.hpp"

namespace driftbound::analysis {
namespace {

struct ExactFunction {
  std::string_view operator()(const op::Gemm&) const { return "alpha A B + beta C, A or B transposed where asked"; }
  std::string_view operator()(const op::MatMul&) const { return "sum_k A_ik B_kj, over matrices of the last two axes"; }
  std::string_view operator()(const op::Relu&) const { return "max(x, 0)"; }
  std::string_view operator()(const op::LeakyRelu&) const { return "x for x >= 0, alpha x below"; }
  std::string_view operator()(const op::Elu&) const { return "x for x >= 0, alpha (e^x - 1) below"; }
  std::string_view operator()(const op::Sigmoid&) const { return "1 / (1 + e^-x)"; }
  std::string_view operator()(const op::Softplus&) const { return "log(1 + e^x)"; }
  std::string_view operator()(const op::Erf&) const {
    return "2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x";
  }
  std::string_view operator()(const op::Softmax&) const { return "e^x_i / sum_j e^x_j, over axis"; }
  std::string_view operator()(const op::Cast&) const { return "x"; }
  std::string_view operator()(const op::Reciprocal&) const { return "1 / x"; }
  std::string_view operator()(const op::Sign&) const { return "-1, 0 or 1, the sign of x"; }
  std::string_view operator()(const op::Pow&) const { return "x^exponent"; }
  std::string_view operator()(const op::Clip&) const { return "min(max(x, least), most)"; }
  std::string_view operator()(const op::ThresholdedRelu&) const { return "x for x > alpha, else 0"; }
  std::string_view operator()(const op::PRelu&) const { return "x for x >= 0, slope x below"; }
  std::string_view operator()(const op::Greater&) const { return "1 where a > b, else 0"; }
  std::string_view operator()(const op::GreaterOrEqual&) const { return "1 where a >= b, else 0"; }
  std::string_view operator()(const op::Equal&) const { return "1 where a = b, else 0"; }
  std::string_view operator()(const op::Choice&) const {
    return "a where c > 1/2, else b; for a truth value c: c, a, b";
  }
  std::string_view operator()(const op::ReduceSum&) const { return "sum of x over axes"; }
  template <class T>
  std::string_view operator()(const T&) const {
    return "";
  }
};

}  // namespace

std::string_view exact_function_of(const Op& op) {
  return std::visit(ExactFunction(), op);
}

}  // namespace driftbound::analysis
