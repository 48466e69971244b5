#include <array>

#include "fuzz/draw.hpp"
#include "fuzz/small_models.hpp"
#include "model/inputs_parse.hpp"

namespace driftbound::fuzz {

void read_model_inputs(Bytes bytes) {
  constexpr std::array<const char*, 5> names = {"x.npy", "x.npz", "x.safetensors", "x.csv", "x.txt"};
  Draw draw(bytes);
  const std::size_t choices = draw.byte();
  const Graph& graph = small_model(choices % 4);
  const auto file = MappedFile::holding({draw.rest().begin(), draw.rest().end()});
  const Inputs inputs = parse_inputs(graph, file, names[choices / 4 % names.size()]);
  const BatchLayout layout = batch_layout(graph);
  const std::int64_t samples = sample_count(graph, layout, inputs);
  const Inputs last = slice(graph, layout, inputs, samples - 1, 1);
  require(last.tensors.size() == graph.inputs.size(), "a sample has every input");
}

}  // namespace driftbound::fuzz
