#include "fuzz/targets.hpp"

#include <array>

namespace driftbound::fuzz {
namespace {

constexpr std::array<Target, 12> all_targets = {{{"onnx", read_onnx},
                                                 {"drawn_onnx", read_drawn_onnx},
                                                 {"shapes", infer_drawn_graph},
                                                 {"zip", read_zip},
                                                 {"layers", read_layers},
                                                 {"npy", read_npy_file},
                                                 {"safetensors", read_safetensors},
                                                 {"trace", read_trace_header},
                                                 {"recording", read_recording},
                                                 {"csv", read_csv_text},
                                                 {"json", read_json},
                                                 {"inputs", read_model_inputs}}};

}  // namespace

std::span<const Target> targets() {
  return all_targets;
}

const Target& find_target(std::string_view name) {
  for (const Target& target : all_targets) {
    if (target.name == name) return target;
  }
  throw std::out_of_range("no fuzz target " + std::string(name));
}

}  // namespace driftbound::fuzz
