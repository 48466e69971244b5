#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bounds/adjoint/narrow_steps.hpp"
#include "bounds/node_view.hpp"
#include "model/flatten.hpp"

namespace driftbound::bounds {

/// Nodes of a network, some of which are composites, and the node of the original graph that each belongs to.
struct JoinedNodes {
  std::vector<Node> nodes;
  std::vector<std::size_t> of_node;
};

/// A graph in primitive ops for one block of samples, before any data are seen.
class Network {
public:
  /// `rows`: how many samples lie in axis 0 of every input; empty where one evaluation is one sample. The graph must
  /// outlive the network.
  /// Throws:    ShapeMismatch
  Network(const Graph& graph, const std::vector<Shape>& input_shapes, std::optional<std::int64_t> rows);

  const Graph& graph() const { return graph_; }
  const FlatGraph& flat() const { return flat_; }
  const std::vector<Node>& nodes() const { return flat_.graph.nodes; }
  /// The same with every Gelu of what varies as one node: what loops over rows take.
  /// Source:    docs/theory.md T-124
  const JoinedNodes& joined() const { return joined_; }
  const Shape& shape(ValueId id) const { return flat_.shapes[id]; }
  /// The value that is the output of a node of the original graph.
  ValueId value_of_node(std::size_t node) const { return node_outputs_[node]; }
  std::size_t size() const { return flat_.graph.values.size(); }
  /// Whether a value depends on the inputs. Others are the same for every sample.
  bool varies(ValueId id) const { return varies_[id]; }
  /// Samples that a value holds, one after the other: 1 for values that are the same for all.
  std::int64_t rows(ValueId id) const { return varies_[id] ? rows_ : 1; }
  std::int64_t rows() const { return rows_; }
  /// Whether axis 0 of every value that varies counts samples, inside composites too.
  bool keeps_rows_apart() const { return keeps_rows_apart_; }
  /// The same network for another number of samples; empty where axis 0 does not count them everywhere.
  std::optional<Network> with_rows(std::int64_t rows) const;
  /// The same network with its roundings to narrow formats as nodes; empty where nothing that varies is rounded so, or
  /// read otherwise.
  std::optional<Network> narrowed(const Machine& machine, const Readings& readings = {}) const;
  /// Empty but for what narrowed() gives.
  const NarrowSteps& steps() const { return steps_; }
  const Readings& readings() const { return readings_; }
  /// The same for copies of a network, and of no other one for as long as it is kept.
  const std::shared_ptr<const int>& identity() const { return identity_; }

private:
  Network(const Graph& graph, const std::vector<Shape>& input_shapes, std::optional<std::int64_t> rows,
          const std::optional<Machine>& machine, const Readings& readings);
  bool node_keeps_rows_apart(const Node& node) const;
  void join();

  const Graph& graph_;
  std::vector<Shape> input_shapes_;
  bool counts_samples_ = false;
  std::optional<Machine> machine_;  ///< whose narrow formats are nodes
  Readings readings_;               ///< of its products
  FlatGraph flat_;
  JoinedNodes joined_;
  NarrowSteps steps_;
  std::vector<ValueId> node_outputs_;
  std::int64_t rows_ = 1;
  std::vector<bool> varies_;
  bool keeps_rows_apart_ = true;
  std::shared_ptr<const int> identity_ = std::make_shared<const int>(0);
};

}  // namespace driftbound::bounds
