#include "evaluate/rounding.hpp"

#include <algorithm>
#include <cstring>

namespace driftbound {
namespace {

template <class Real>
constexpr FormatId own_format = sizeof(Real) == sizeof(float) ? FormatId::fp32 : FormatId::fp64;
template <class Real>
constexpr ElementType own_type = sizeof(Real) == sizeof(float) ? ElementType::f32 : ElementType::f64;

/// Whether rounding a Real to the format changes nothing.
template <class Real>
bool keeps_every(FormatId target) {
  return target == FormatId::fp64 || target == own_format<Real>;
}

template <class Real>
Tensor<Real> copied(const StoredTensor& stored) {
  Tensor<Real> result(stored.shape());
  if (!result.values.empty()) std::memcpy(result.values.data(), stored.bytes().data(), stored.bytes().size());
  return result;
}

}  // namespace

template <class Real>
Real rounded(double x, FormatId target, Rounding rounding) {
  if (keeps_every<Real>(target)) return static_cast<Real>(x);
  return static_cast<Real>(round_to(x, format(target), rounding));
}

template <class Real>
Tensor<Real> rounded(const StoredTensor& stored, FormatId target, Rounding rounding) {
  if (stored.type() == own_type<Real> && keeps_every<Real>(target)) return copied<Real>(stored);
  const Tensor<double> exact = stored.to_double();
  Tensor<Real> result(exact.shape);
  std::transform(exact.values.begin(), exact.values.end(), result.values.begin(),
                 [=](double x) { return rounded<Real>(x, target, rounding); });
  return result;
}

template <class Real>
Tensor<Real> rounded(Tensor<Real> values, FormatId target, Rounding rounding) {
  if (keeps_every<Real>(target)) return values;
  for (Real& x : values.values) x = rounded<Real>(static_cast<double>(x), target, rounding);
  return values;
}

template float rounded<float>(double, FormatId, Rounding);
template double rounded<double>(double, FormatId, Rounding);
template Tensor<float> rounded<float>(const StoredTensor&, FormatId, Rounding);
template Tensor<double> rounded<double>(const StoredTensor&, FormatId, Rounding);
template Tensor<float> rounded<float>(Tensor<float>, FormatId, Rounding);
template Tensor<double> rounded<double>(Tensor<double>, FormatId, Rounding);

}  // namespace driftbound
