#include "model/onnx_masks.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/convert.hpp"

namespace driftbound::onnx {
namespace {

bool is_minus_infinite(double x) {
  return std::isinf(x) && x < 0.0;
}

StoredTensor truths_of(const Shape& shape, const std::vector<bool>& truths) {
  std::vector<std::byte> bytes;
  for (const bool truth : truths) bytes.push_back(std::byte{truth});
  return StoredTensor(ElementType::boolean, shape, std::move(bytes));
}

MaskParts<StoredTensor> split(const StoredTensor& mask) {
  Tensor<double> numbers = mask.to_double();
  std::vector<bool> kept;
  for (double& x : numbers.values) {
    kept.push_back(!is_minus_infinite(x));
    if (is_minus_infinite(x)) x = 0.0;
  }
  const bool any = std::any_of(numbers.values.begin(), numbers.values.end(), [](double x) { return x != 0.0; });
  MaskParts<StoredTensor> parts{truths_of(mask.shape(), kept), std::nullopt};
  if (any) parts.added = converted(StoredTensor::from(numbers), mask.type(), "a mask");
  return parts;
}

}  // namespace

bool is_mask(const StoredTensor& tensor) {
  if (!is_float(tensor.type())) return false;
  const std::vector<double> values = tensor.to_double().values;
  return std::any_of(values.begin(), values.end(), is_minus_infinite) &&
         std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x) || is_minus_infinite(x); });
}

std::optional<MaskParts<StoredTensor>> parts_of_mask(const StoredTensor& mask) {
  if (!is_mask(mask)) return std::nullopt;
  return split(mask);
}

std::optional<MaskParts<GivenValue>> parts_of_mask(const GivenValue& mask) {
  const auto is_one = [](const StoredTensor& one) { return is_mask(one) || one.all_finite(); };
  if (std::none_of(mask.each.begin(), mask.each.end(), is_mask) ||
      !std::all_of(mask.each.begin(), mask.each.end(), is_one))
    return std::nullopt;
  MaskParts<GivenValue> parts;
  GivenValue added;
  bool adds = false;
  for (const StoredTensor& one : mask.each) {
    MaskParts<StoredTensor> of_one = split(one);
    adds = adds || of_one.added.has_value();
    parts.kept.each.push_back(std::move(of_one.kept));
    const StoredTensor zeros(one.type(), one.shape(), std::vector<std::byte>(one.bytes().size()));
    added.each.push_back(of_one.added.value_or(zeros));
  }
  if (mask.all) {
    MaskParts<StoredTensor> of_all = split(*mask.all);
    parts.kept.all = std::move(of_all.kept);
    const StoredTensor zeros(mask.all->type(), mask.all->shape(), std::vector<std::byte>(mask.all->bytes().size()));
    added.all = of_all.added.value_or(zeros);
  }
  if (adds) parts.added = std::move(added);
  return parts;
}

bool is_minus_infinity(const StoredTensor& tensor) {
  if (!is_float(tensor.type()) || tensor.size() == 0) return false;
  const Tensor<double> values = tensor.to_double();
  return std::all_of(values.values.begin(), values.values.end(), is_minus_infinite);
}

StoredTensor inverted(const StoredTensor& truths) {
  std::vector<std::byte> bytes(truths.bytes().begin(), truths.bytes().end());
  for (std::byte& truth : bytes) truth = truth == std::byte{0} ? std::byte{1} : std::byte{0};
  return StoredTensor(ElementType::boolean, truths.shape(), std::move(bytes));
}

GivenValue inverted(const GivenValue& truths) {
  GivenValue result;
  for (const StoredTensor& one : truths.each) result.each.push_back(inverted(one));
  if (truths.all) result.all = inverted(*truths.all);
  return result;
}

}  // namespace driftbound::onnx
