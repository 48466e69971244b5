#pragma once

#include <cstddef>
#include <vector>

#include "bounds/nodes/node_view.hpp"
#include "bounds/theorems/softmax.hpp"

namespace driftbound::bounds {

/// One row of a Softmax, of which hidden elements are set apart. For the elements seen, `error` bounds the distance of
/// the stored weight from the softmax over them alone.
/// Source:    docs/theory.md T-131
struct SoftmaxRow {
  std::vector<double> x, radius;  ///< arguments of all elements, and how far they may be off
  HiddenShares hidden;
  std::vector<std::size_t> seen;    ///< elements that are not hidden
  std::vector<double> p, error, e;  ///< of these: stored weights, their errors, radii of the arguments

  explicit SoftmaxRow(std::size_t length) : x(length), radius(length) {}

  /// Reads the row with the elements at `place(j)`. `radii` of the arguments, `y_error` of the weights.
  template <class Place>
  void read(const NodeView& view, Radii radii, Radii y_error, const Place& place) {
    for (std::size_t j = 0; j < x.size(); ++j) {
      x[j] = view.input(0).values[place(j)];
      radius[j] = radius_at(radii, place(j)).value();
    }
    hidden = theorems::hidden_shares(x, radius);
    seen.clear(), p.clear(), error.clear(), e.clear();
    for (std::size_t j = 0; j < x.size(); ++j) {
      if (hidden.is_hidden[j] != 0) continue;
      seen.push_back(j);
      p.push_back(view.y(place(j)));
      error.push_back((radius_at(y_error, place(j)) + hidden.total).value());
      e.push_back(radius[j]);
    }
  }
};

}  // namespace driftbound::bounds
