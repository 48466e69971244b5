#pragma once

#include <cstdint>
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
};

/// What one node's output looks like in a trace. Other programs may run a model sample by sample: a single sample
/// may come without its sample axis, and samples of a batched model one above the other as [N, 1, …].
struct ExpectedLayer {
  Shape shape;
  Shape alternative;  ///< as many elements in the same order; equal to `shape` where there is no second form

  bool fits(const Shape& found) const { return found == shape || found == alternative; }
};

struct LayerMatch {
  std::size_t recorded = 0;  ///< position in the list of recorded layers
  bool by_order = false;     ///< neither the layer's nor the value's name is in the trace
};

/// Finds every node's record: by layer name, else by the name of its output, else, for all that are left, by order
/// and shape where only one assignment keeps both. Where a record's name fits several nodes its index decides.
/// Throws:    InvalidArgument (missing layers, ambiguous names or order), starting with `where`
std::vector<LayerMatch> match_layers(const Graph& graph, const std::vector<ExpectedLayer>& expected,
                                     const std::vector<RecordedLayer>& recorded, const std::string& where);

}  // namespace driftbound
