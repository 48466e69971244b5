#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "driftbound/implicit/given_values.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/model/row_reader.hpp"

namespace driftbound::analysis {

/// Signs by values of another program in an .npy file, one a point; those that its arithmetic leaves open by the field.
class GivenSigns {
public:
  /// Throws:    as RowReader; ShapeMismatch for another number of values than of points; InvalidArgument for values
  ///            stored more narrowly than the arithmetic computes them
  GivenSigns(const SignField& field, const ArithmeticModel& arithmetic, const std::filesystem::path& file,
             std::int64_t points);

  /// Signs of the points from `first` on. Some of those that the values decide, and all others, are compared with the
  /// field's: what its certified value contradicts is no run of that arithmetic.
  /// Throws:    InvalidArgument naming the first such point; as GivenValues::signs, SignField::signs, RowReader::read
  SignStatistics decide(std::int64_t first, std::span<const double> points, std::span<PointSign> out) const;

  Guarantee guarantee() const { return given_.guarantee(); }
  std::string condition() const { return given_.condition(); }

private:
  /// Signs by the field of the rows named.
  SignStatistics evaluate(std::span<const double> points, std::span<const std::int64_t> rows,
                          std::span<PointSign> out) const;
  void require_agreement(std::int64_t point, const PointSign& given, const PointSign& certified) const;

  SignField field_;
  GivenValues given_;
  RowReader values_;
  std::filesystem::path file_;
};

}  // namespace driftbound::analysis
