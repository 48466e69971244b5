#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"

namespace driftbound {

/// A name as it stands in a trace's keys: '/' separates the parts of a key, so it becomes '.'.
std::string key_name(std::string name);

/// One layer output that a trace holds.
struct RecordedLayer {
  std::string key;
  std::int64_t index = 0;
  std::string name;  ///< as in the key
  Shape shape;
  bool is_output = false;  ///< its name is that of an output of the model, and has no index
};

/// What one node's output looks like in a trace. Other programs may run a model sample by sample: a single sample
/// may come without its sample axis, and samples of a batched model one above the other as [N, 1, …].
struct ExpectedLayer {
  Shape shape;
  Shape alternative;  ///< as many elements in the same order; equal to `shape` where there is no second form

  bool fits(const Shape& found) const { return found == shape || found == alternative; }
};

enum class MatchedBy { name, module_path, order };

struct LayerMatch {
  std::size_t recorded = 0;  ///< position in the list of recorded layers
  MatchedBy by = MatchedBy::name;
};

struct LayerMatches {
  std::vector<std::optional<LayerMatch>> of_node;  ///< empty: not recorded
  std::vector<std::size_t> copies;                 ///< records that hold what that of another name does
  /// Records that may be of no layer, or of several; where any is found by its name or by the path of its module.
  std::vector<std::size_t> unplaced;
};

/// Finds nodes' records: by layer name, else by the name of its output, else by the path of a module whose result it is,
/// else, for all that are left, by order and shape where only one assignment keeps both. Where a record's name fits
/// several nodes its index decides. A module that is called several times has its last call recorded.
/// `are_same`: whether two records hold the same numbers.
/// Throws:    InvalidArgument (nothing recorded, ambiguous names or order, no record of a layer), starting with `where`
LayerMatches match_layers(const Graph& graph, const std::vector<ExpectedLayer>& expected,
                          const std::vector<RecordedLayer>& recorded,
                          const std::function<bool(std::size_t, std::size_t)>& are_same, const std::string& where);

/// Refuses a trace in which some node has no record.
/// Throws:    InvalidArgument that lists the layers
void require_all(const Graph& graph, const std::vector<ExpectedLayer>& expected, const LayerMatches& matches,
                 const std::string& where);

}  // namespace driftbound
