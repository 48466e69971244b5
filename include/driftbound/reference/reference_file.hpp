#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "driftbound/reference/reference.hpp"

namespace driftbound {

/// Collects the certified values of a run block by block and writes them as one .safetensors file:
/// `layer/<index>/<name>/mid_hi`, `…/mid_lo`, `…/rad`, fp64, and every graph output also as
/// `output/<name>/…` (docs/file-formats.md). The exact value lies within rad of mid_hi + mid_lo.
class ReferenceRecorder {
public:
  ReferenceRecorder(const Graph& graph, const BatchLayout& layout);

  /// Appends the reference of one evaluation of `samples` samples.
  void add(const Reference& reference, std::int64_t samples);

  /// Whole or not at all.
  /// Throws:    FileError
  void write(const std::filesystem::path& file, const std::string& model_sha256) const;

private:
  struct Layer {
    Tensor<double> mid_hi, mid_lo, radius;
  };
  const Graph& graph_;
  bool batched_;
  std::vector<bool> varies_;
  std::vector<Layer> layers_;
};

}  // namespace driftbound
