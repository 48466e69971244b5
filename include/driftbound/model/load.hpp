#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"

namespace driftbound {

/// A node this version cannot represent, and why.
struct UnsupportedNode {
  std::string node;
  std::string op;      ///< "ai.onnx.ml.TreeEnsemble", "Conv" …
  std::string reason;  ///< "op not supported in this version", "Reshape with a computed target shape" …
};

/// A file next to the model that holds weights.
struct DataFile {
  std::string location;  ///< relative to the model's folder
  std::uint64_t bytes = 0;
};

/// What is given to a model before it is loaded. Integers and extents that follow from it are computed when the model is
/// loaded: ids look up their rows of a table, masks become numbers, an If takes its branch.
struct GivenInputs {
  Inputs data;                                        ///< by the names of the file's inputs
  std::vector<std::pair<std::string, Shape>> shapes;  ///< of inputs without data, all rows included
  /// Whether an open axis 0 counts samples. Else the rows that are given are one evaluation.
  bool rows_are_samples = true;

  bool empty() const { return data.tensors.empty() && shapes.empty(); }
};

/// What a file says, also where it holds ops that this version cannot represent.
struct ModelDescription {
  Graph graph;  ///< complete only where `unsupported` is empty
  /// Where data were given: all of them, and those of the graph's inputs that were computed from given integers.
  Inputs inputs;
  /// Integer inputs that select rows of a constant table, and how many rows that has.
  std::vector<std::pair<std::string, std::int64_t>> index_limits;
  std::vector<UnsupportedNode> unsupported;
  std::vector<std::string> operators;  ///< op type of every node in file order
  std::string producer;
  std::vector<DataFile> data_files;
};

/// Loads an ONNX file (any IR version and opset, weights in the file or in others next to it) or a .npz layer dump
/// (`0000.dense.A` [in,out], `0000.dense.b`, `0001.relu._` …). Initialisers keep their element type.
/// Throws:    FileError (missing, unreadable, also its data files), ParseError (truncated, inconsistent),
/// ShapeMismatch,
///            Unsupported (lists every node that is not supported, with op and opset)
Graph load_model(const std::filesystem::path& file);

/// The same without throwing for unsupported nodes: for `inspect`. Inputs that are given here become constants: axes,
/// extents, exponents and the like, which are part of the function and not of its arguments.
/// Throws:    InvalidArgument where no input has the name, ShapeMismatch where its element type is another
ModelDescription describe_model(const std::filesystem::path& file, const Inputs& constants = {});

/// The same for the inputs that a run is given: their shapes fix the extents that the file leaves open (but axis 0,
/// where it counts samples), and integers that follow from them are computed. Where the rows of an open axis 0 depend on
/// each other they are taken as one evaluation, as ONNX means it.
/// Throws:    ShapeMismatch (data that do not fit an input), InvalidArgument where no input has the name
ModelDescription describe_model(const std::filesystem::path& file, const GivenInputs& given);

/// Throws:    Unsupported (lists every node that is not supported, with op and opset)
void require_supported(const ModelDescription& model);

}  // namespace driftbound
