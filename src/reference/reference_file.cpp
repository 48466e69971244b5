#include "driftbound/reference/reference_file.hpp"

#include <map>
#include <utility>

#include "model/safetensors.hpp"
#include "trace/match_layers.hpp"

namespace driftbound {

ReferenceRecorder::ReferenceRecorder(const Graph& graph, const BatchLayout& layout)
    : graph_(graph), batched_(layout.batched), varies_(depends_on_input(graph)), layers_(graph.nodes.size()) {}

void ReferenceRecorder::add(const Reference& reference, std::int64_t samples) {
  for (std::size_t node = 0; node < layers_.size(); ++node) {
    Layer& layer = layers_[node];
    const Tensor<Ball>& balls = reference.layers[node];
    const bool first = layer.mid_hi.shape.empty() && layer.mid_hi.values.empty();
    const bool grows = varies_[graph_.nodes[node].output];
    if (!first && !grows) continue;
    if (first) {
      layer.mid_hi.shape = balls.shape;
      if (grows && !batched_) layer.mid_hi.shape.insert(layer.mid_hi.shape.begin(), samples);
    } else {
      layer.mid_hi.shape[0] += samples;
    }
    for (const Ball& ball : balls.values) {
      layer.mid_hi.values.push_back(ball.hi);
      layer.mid_lo.values.push_back(ball.lo);
      layer.radius.values.push_back(ball.radius.value());
    }
    layer.mid_lo.shape = layer.radius.shape = layer.mid_hi.shape;
  }
}

void ReferenceRecorder::write(const std::filesystem::path& file, const std::string& model_sha256) const {
  std::vector<std::pair<std::string, StoredTensor>> tensors;
  const auto append = [&](const std::string& prefix, const Layer& layer) {
    tensors.emplace_back(prefix + "/mid_hi", StoredTensor::from(layer.mid_hi));
    tensors.emplace_back(prefix + "/mid_lo", StoredTensor::from(layer.mid_lo));
    tensors.emplace_back(prefix + "/rad", StoredTensor::from(layer.radius));
  };
  for (std::size_t node = 0; node < layers_.size(); ++node)
    append("layer/" + std::to_string(node) + "/" + key_name(graph_.nodes[node].name), layers_[node]);
  for (const ValueId output : graph_.outputs)
    if (const auto node = graph_.producer(output))
      append("output/" + key_name(graph_.value(output).name), layers_[*node]);
  std::vector<std::pair<std::string, const StoredTensor*>> views;
  for (const auto& [name, tensor] : tensors) views.emplace_back(name, &tensor);
  write_safetensors(file, views, {{"driftbound.reference", "1"}, {"model_sha256", model_sha256}});
}

}  // namespace driftbound
