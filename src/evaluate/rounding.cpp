#include "evaluate/rounding.hpp"

#include <algorithm>

namespace driftbound {
namespace {

template <class Real>
constexpr FormatId own_format = sizeof(Real) == sizeof(float) ? FormatId::fp32 : FormatId::fp64;

}  // namespace

template <class Real>
Real rounded(double x, FormatId target) {
  if (target == FormatId::fp64 || target == own_format<Real>) return static_cast<Real>(x);
  return static_cast<Real>(round_to(x, format(target), Rounding::nearest_even));
}

template <class Real>
Tensor<Real> rounded(const StoredTensor& stored, FormatId target) {
  const Tensor<double> exact = stored.to_double();
  Tensor<Real> result(exact.shape);
  std::transform(exact.values.begin(), exact.values.end(), result.values.begin(),
                 [target](double x) { return rounded<Real>(x, target); });
  return result;
}

template <class Real>
Tensor<Real> rounded(Tensor<Real> values, FormatId target) {
  if (target == FormatId::fp64 || target == own_format<Real>) return values;
  for (Real& x : values.values) x = rounded<Real>(static_cast<double>(x), target);
  return values;
}

template float rounded<float>(double, FormatId);
template double rounded<double>(double, FormatId);
template Tensor<float> rounded<float>(const StoredTensor&, FormatId);
template Tensor<double> rounded<double>(const StoredTensor&, FormatId);
template Tensor<float> rounded<float>(Tensor<float>, FormatId);
template Tensor<double> rounded<double>(Tensor<double>, FormatId);

}  // namespace driftbound
