#include "bounds/rows/expanded_row.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "bounds/adjoint/radii.hpp"
#include "bounds/kernels/element_kernels.hpp"
#include "bounds/nodes/body_rounding.hpp"
#include "bounds/nodes/forward.hpp"

namespace driftbound::bounds {
namespace {

void copy_to(const std::vector<double>& row, std::size_t first, std::vector<double>& block) {
  std::copy(row.begin(), row.end(), block.begin() + static_cast<std::ptrdiff_t>(first));
}

}  // namespace

void ExpandedRow::write_errors(std::size_t first, std::vector<double>& added_to,
                               std::vector<double>& remainder_to) const {
  copy_to(added, first, added_to);
  if (linear.remainder.empty())
    std::fill_n(remainder_to.begin() + static_cast<std::ptrdiff_t>(first), added.size(), 0.0);
  else
    copy_to(linear.remainder, first, remainder_to);
}

void ExpandedRow::write_moved(std::size_t first, std::vector<double>& moved_to) const {
  copy_to(moved, first, moved_to);
}

ExpandedRow expanded_row(const NodeView& view, const std::vector<Radii>& radii, const std::vector<double>& y_error,
                         bool any_order, const Setting& setting,
                         const std::function<std::optional<JointMove>(const Linearised&)>& joint) {
  ExpandedRow row{linearise(view, radii, y_error, setting), y_error, propagate(view, radii, y_error, setting)};
  if (const std::optional<JointMove> together = joint ? joint(row.linear) : std::nullopt) {
    for (std::size_t i = 0; i < row.moved.size(); ++i) row.moved[i] = std::min(row.moved[i], together->element[i]);
    row.joint_norm = Magnitude(together->norm.front());
  }
  add_magnitudes(row.moved, y_error);
  limit_by_ends(view, radii, row.moved);
  std::set<std::string> known_before;
  const std::vector<double> rounding = body_rounding({view, radii, row.moved, any_order}, setting, known_before);
  add_magnitudes(row.added, rounding);
  add_magnitudes(row.moved, rounding);
  return row;
}

}  // namespace driftbound::bounds
