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
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/region/grid_cells.hpp"
#include "driftbound/region/octree.hpp"

// Header-only: the library itself never includes VTK.
namespace driftbound::vtk {

/// A network as vtkImplicitFunction, for vtkSampleFunction, vtkClipPolyData, vtkCutter and so on: near the exact values,
/// with their certified signs. 0 is a proven zero, NaN undecided. With a tree points in its certain cells are not
/// evaluated: values there are only as large as the tree knows |f| to be at least, so that contours lie elsewhere between
/// the same signs; image() evaluates where that would show.
/// Guarantee: the sign is that of the exact network (docs/theory.md T-110, T-150)
/// Throws:    as SignField::signs, Octree::signs
class ImplicitNetwork : public vtkImplicitFunction {
public:
  vtkTypeMacro(ImplicitNetwork, vtkImplicitFunction);
  static ImplicitNetwork* New() { VTK_STANDARD_NEW_BODY(ImplicitNetwork); }

  /// `octree`: of the same network, target and iso value, or none.
  /// Throws:    InvalidArgument for a network of another number of coordinates than three, and for another's tree
  void SetField(const SignField& field, const Octree* octree = nullptr) {
    if (field.dimension() != 3) throw InvalidArgument("ImplicitNetwork: VTK needs a network of three coordinates");
    if (octree != nullptr) octree->signs(field, nullptr, 0, 3, 1, {});
    field_ = std::make_unique<SignField>(field);
    octree_ = octree == nullptr ? nullptr : std::make_unique<Octree>(*octree);
    this->Modified();
  }

  using vtkImplicitFunction::EvaluateFunction;
  double EvaluateFunction(double x[3]) override {
    PointSign sign;
    find_signs(x, 1, {&sign, 1});
    return signed_value(sign);
  }

  /// All points at once, by every thread of the field.
  void EvaluateFunction(vtkDataArray* input, vtkDataArray* output) override {
    const vtkIdType count = input->GetNumberOfTuples();
    std::vector<double> points(3 * static_cast<std::size_t>(count));
    for (vtkIdType i = 0; i < count; ++i) input->GetTuple(i, &points[3 * static_cast<std::size_t>(i)]);
    std::vector<PointSign> signs(static_cast<std::size_t>(count));
    find_signs(points.data(), count, signs);
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
  void find_signs(const double* points, vtkIdType count, std::span<PointSign> signs) const {
    if (octree_)
      octree_->signs(field(), points, count, 3, 1, signs);
    else
      field().signs(points, count, 3, 1, signs);
  }
  std::unique_ptr<SignField> field_;
  std::unique_ptr<Octree> octree_;
};

/// The field on a grid over its domain, with point data `value` (near the exact one), `sign` (-1, 0, 1, 2 undecided) and
/// cell data `corners` (the sign that all corners have; 0: they differ, so that the surface passes; 2: one is undecided)
/// and `state` (the sign that the network has all over the cell; 0: it is 0 somewhere in it; 2: neither is known). The
/// values are `value` for contour filters too: iso 0 lies between certified signs.
/// With a tree of the same network, target and iso value, points in its certain cells are evaluated only where they are
/// corners of a cell whose state is 0 or 2: other values have the right sign, and are as large as the tree knows |f| to
/// be at least. Contours are the same.
/// Shapes:    extents: points in every coordinate, at least two
/// Guarantee: `sign` and `state` are proven (docs/theory.md T-110, T-150)
/// Throws:    InvalidArgument; as SignField::signs, Octree::signs
inline vtkSmartPointer<vtkImageData> image(const SignField& field, const std::array<int, 3>& extents,
                                           const Octree* octree = nullptr) {
  if (field.dimension() != 3) throw InvalidArgument("image: VTK needs a network of three coordinates");
  if (*std::min_element(extents.begin(), extents.end()) < 2)
    throw InvalidArgument("image: a grid has at least two points in every coordinate");
  const SignOptions& options = field.options();
  const Box box = options.domain.value_or(Box{{-1, -1, -1}, {1, 1, 1}});
  const auto grid = vtkSmartPointer<vtkImageData>::New();
  std::array<double, 3> spacing{};
  for (std::size_t c = 0; c < 3; ++c) spacing[c] = (box.upper[c] - box.lower[c]) / (extents[c] - 1);
  grid->SetDimensions(extents.data());
  grid->SetOrigin(box.lower.data());
  grid->SetSpacing(spacing.data());
  const auto count = static_cast<std::size_t>(grid->GetNumberOfPoints());
  std::vector<double> points(3 * count);
  for (std::size_t i = 0; i < count; ++i) grid->GetPoint(static_cast<vtkIdType>(i), &points[3 * i]);

  std::array<std::vector<double>, 3> coordinates;
  std::array<std::size_t, 3> strides = {1, static_cast<std::size_t>(extents[0]), 0};
  strides[2] = strides[1] * static_cast<std::size_t>(extents[1]);
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = 0; i < static_cast<std::size_t>(extents[c]); ++i)
      coordinates[c].push_back(points[3 * i * strides[c] + c]);
  GridCells cells(std::move(coordinates));
  try {
    cells.find_signs(
        RegionEvaluator(
            field.graph(), field.target(),
            {.iso = options.iso, .gradients = false, .rounding = false, .symbols = 0, .threads = options.threads}),
        octree);
  } catch (const Unsupported&) {
    // No state is known of networks with ops that regions do not know.
  }

  std::vector<PointSign> signs(count);
  if (octree == nullptr) {
    field.signs(points.data(), static_cast<std::int64_t>(count), 3, 1, signs);
  } else {
    octree->signs(field, points.data(), static_cast<std::int64_t>(count), 3, 1, signs);
    std::vector<std::size_t> rows;
    std::vector<double> at;
    for (std::size_t row = 0; row < count; ++row) {
      const bool has_value = signs[row].stage != SignStage::given || std::isfinite(signs[row].bound);
      if (has_value || !cells.is_at_unknown({row % strides[1], row / strides[1] % static_cast<std::size_t>(extents[1]),
                                             row / strides[2]}))
        continue;
      rows.push_back(row);
      at.insert(at.end(), &points[3 * row], &points[3 * row] + 3);
    }
    std::vector<PointSign> found(rows.size());
    field.signs(at.data(), static_cast<std::int64_t>(rows.size()), 3, 1, found);
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (found[i].sign != Sign::undecided) signs[rows[i]] = found[i];
  }

  const auto values = vtkSmartPointer<vtkDoubleArray>::New();
  values->SetName("value");
  std::vector<std::int8_t> numbers;
  for (const PointSign& found : signs) {
    values->InsertNextValue(signed_value(found));
    numbers.push_back(static_cast<std::int8_t>(found.sign));
  }
  const auto array_of = [](const char* name, const std::vector<std::int8_t>& elements) {
    const auto array = vtkSmartPointer<vtkSignedCharArray>::New();
    array->SetName(name);
    for (const std::int8_t element : elements) array->InsertNextValue(element);
    return array;
  };
  const std::vector<std::int8_t> corners = cells.corners(numbers);
  grid->GetPointData()->SetScalars(values);
  grid->GetPointData()->AddArray(array_of("sign", numbers));
  grid->GetCellData()->AddArray(array_of("corners", corners));
  grid->GetCellData()->AddArray(array_of("state", cells.states(corners)));
  return grid;
}

}  // namespace driftbound::vtk
