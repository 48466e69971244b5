#pragma once

#include <vtkCellData.h>
#include <vtkDoubleArray.h>
#include <vtkImageData.h>
#include <vtkImplicitFunction.h>
#include <vtkObjectFactory.h>
#include <vtkPointData.h>
#include <vtkSignedCharArray.h>
#include <vtkSmartPointer.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/num/errors.hpp"

// Header-only: the library itself never includes VTK.
namespace driftbound::vtk {

/// A network as vtkImplicitFunction, for vtkSampleFunction, vtkClipPolyData, vtkCutter and so on: near the exact values,
/// with their certified signs. 0 is a proven zero, NaN undecided.
/// Guarantee: the sign is that of the exact network (docs/theory.md T-110)
/// Throws:    as SignField::at
class ImplicitNetwork : public vtkImplicitFunction {
public:
  vtkTypeMacro(ImplicitNetwork, vtkImplicitFunction);
  static ImplicitNetwork* New() { VTK_STANDARD_NEW_BODY(ImplicitNetwork); }

  /// Throws:    InvalidArgument for a network of another number of coordinates than three
  void SetField(const SignField& field) {
    if (field.dimension() != 3) throw InvalidArgument("ImplicitNetwork: VTK needs a network of three coordinates");
    field_ = std::make_unique<SignField>(field);
    this->Modified();
  }

  using vtkImplicitFunction::EvaluateFunction;
  double EvaluateFunction(double x[3]) override {
    return signed_value(field().at(std::array<double, 3>{x[0], x[1], x[2]}));
  }

  /// All points at once, by every thread of the field.
  void EvaluateFunction(vtkDataArray* input, vtkDataArray* output) override {
    const vtkIdType count = input->GetNumberOfTuples();
    std::vector<double> points(3 * static_cast<std::size_t>(count));
    for (vtkIdType i = 0; i < count; ++i) input->GetTuple(i, &points[3 * static_cast<std::size_t>(i)]);
    std::vector<PointSign> signs(static_cast<std::size_t>(count));
    field().signs(points.data(), count, 3, 1, signs);
    output->SetNumberOfComponents(1);
    output->SetNumberOfTuples(count);
    for (vtkIdType i = 0; i < count; ++i) output->SetTuple1(i, signed_value(signs[static_cast<std::size_t>(i)]));
  }

  /// Central differences of 2^-12: an estimate, for shading.
  void EvaluateGradient(double x[3], double gradient[3]) override {
    constexpr double step = 0x1p-12;
    for (std::size_t c = 0; c < 3; ++c) {
      std::array<double, 3> above = {x[0], x[1], x[2]}, below = above;
      above[c] += step;
      below[c] -= step;
      gradient[c] = (field().at(above).value - field().at(below).value) / (above[c] - below[c]);
    }
  }

protected:
  ImplicitNetwork() = default;
  ~ImplicitNetwork() override = default;

private:
  ImplicitNetwork(const ImplicitNetwork&) = delete;
  ImplicitNetwork& operator=(const ImplicitNetwork&) = delete;

  const SignField& field() const {
    if (!field_) throw InvalidArgument("ImplicitNetwork: give it a field by SetField()");
    return *field_;
  }
  std::unique_ptr<SignField> field_;
};

/// The field on a grid over its domain, with point data `value` (near the exact one), `sign` (-1, 0, 1, 2 undecided) and
/// cell data `corners` (the sign that all corners have; 0: they differ, so that the surface passes; 2: one is undecided).
/// The values are `value` for contour filters too: iso 0 lies between certified signs.
/// Shapes:    extents: points in every coordinate, at least two
/// Throws:    InvalidArgument; as SignField::signs
inline vtkSmartPointer<vtkImageData> image(const SignField& field, const std::array<int, 3>& extents) {
  if (field.dimension() != 3) throw InvalidArgument("image: VTK needs a network of three coordinates");
  if (*std::min_element(extents.begin(), extents.end()) < 2)
    throw InvalidArgument("image: a grid has at least two points in every coordinate");
  const Box box = field.options().domain.value_or(Box{{-1, -1, -1}, {1, 1, 1}});
  const auto grid = vtkSmartPointer<vtkImageData>::New();
  std::array<double, 3> spacing{};
  for (std::size_t c = 0; c < 3; ++c) spacing[c] = (box.upper[c] - box.lower[c]) / (extents[c] - 1);
  grid->SetDimensions(extents.data());
  grid->SetOrigin(box.lower.data());
  grid->SetSpacing(spacing.data());
  const auto count = static_cast<std::size_t>(grid->GetNumberOfPoints());
  std::vector<double> points(3 * count);
  for (std::size_t i = 0; i < count; ++i) grid->GetPoint(static_cast<vtkIdType>(i), &points[3 * i]);
  std::vector<PointSign> signs(count);
  field.signs(points.data(), static_cast<std::int64_t>(count), 3, 1, signs);

  const auto values = vtkSmartPointer<vtkDoubleArray>::New();
  const auto sign = vtkSmartPointer<vtkSignedCharArray>::New(), corners = vtkSmartPointer<vtkSignedCharArray>::New();
  values->SetName("value");
  sign->SetName("sign");
  corners->SetName("corners");
  for (const PointSign& found : signs) {
    values->InsertNextValue(signed_value(found));
    sign->InsertNextValue(static_cast<signed char>(found.sign));
  }
  const auto at = [&](int i, int j, int k) {
    return signs[static_cast<std::size_t>(i) +
                 static_cast<std::size_t>(extents[0]) *
                     (static_cast<std::size_t>(j) + static_cast<std::size_t>(extents[1]) * static_cast<std::size_t>(k))]
        .sign;
  };
  for (int k = 0; k + 1 < extents[2]; ++k)
    for (int j = 0; j + 1 < extents[1]; ++j)
      for (int i = 0; i + 1 < extents[0]; ++i) {
        Sign all = at(i, j, k);
        for (int corner = 1; corner < 8; ++corner) {
          const Sign here = at(i + (corner & 1), j + (corner >> 1 & 1), k + (corner >> 2));
          if (here == Sign::undecided) all = Sign::undecided;
          if (all != Sign::undecided && here != all) all = Sign::zero;
        }
        corners->InsertNextValue(static_cast<signed char>(all));
      }
  grid->GetPointData()->SetScalars(values);
  grid->GetPointData()->AddArray(sign);
  grid->GetCellData()->AddArray(corners);
  return grid;
}

}  // namespace driftbound::vtk
