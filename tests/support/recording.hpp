#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/model/tensor.hpp"
#include "model/safetensors.hpp"

namespace driftbound::test {

/// Writes a recorded run (trace version 2), as a program would.
class RecordingWriter {
public:
  using Ids = std::vector<std::optional<std::string>>;

  /// A value that is stored whole.
  void value(const std::string& id, StoredTensor tensor) {
    describe(id, tensor.type(), tensor.shape());
    tensors_.emplace("value/" + id, std::move(tensor));
  }
  /// A value that follows from others.
  void derived(const std::string& id, ElementType type, const Shape& shape) { describe(id, type, shape); }
  /// The elements of a value with these row-major numbers.
  void elements(const std::string& id, const StoredTensor& whole, const std::vector<std::int64_t>& numbers) {
    describe(id, whole.type(), whole.shape());
    values_[id]["part"] = {{"elements", true}};
    tensors_.emplace("value/" + id + "/elements", integers(numbers));
    tensors_.emplace("value/" + id, picked(whole, numbers, {static_cast<std::int64_t>(numbers.size())}));
  }
  /// A matrix cut down to some rows.
  void rows(const std::string& id, const StoredTensor& whole, const std::vector<std::int64_t>& kept) {
    describe(id, whole.type(), whole.shape());
    values_[id]["part"] = {{"axes", {0}}};
    tensors_.emplace("value/" + id + "/axis/0", integers(kept));
    const std::int64_t width = whole.shape()[1];
    std::vector<std::int64_t> numbers;
    for (const std::int64_t row : kept)
      for (std::int64_t j = 0; j < width; ++j) numbers.push_back(row * width + j);
    tensors_.emplace("value/" + id, picked(whole, numbers, {static_cast<std::int64_t>(kept.size()), width}));
  }
  void describe(const std::string& id, ElementType type, const Shape& shape) {
    static const std::map<ElementType, std::string> names = {{ElementType::f64, "F64"},     {ElementType::f32, "F32"},
                                                             {ElementType::f16, "F16"},     {ElementType::bf16, "BF16"},
                                                             {ElementType::i64, "I64"},     {ElementType::i32, "I32"},
                                                             {ElementType::boolean, "BOOL"}};
    values_[id] = {{"type", names.at(type)}, {"shape", shape}};
  }
  nlohmann::json& description(const std::string& id) { return values_[id]; }

  void record(const std::string& op, const Ids& operands, const Ids& results,
              nlohmann::json attributes = nlohmann::json::object(), const std::string& module = "",
              const std::string& name = "") {
    nlohmann::json record = {
        {"op", op}, {"operands", list(operands)}, {"results", list(results)}, {"attributes", std::move(attributes)}};
    if (!module.empty()) record["module"] = module;
    if (!name.empty()) record["name"] = name;
    records_.push_back(std::move(record));
  }
  nlohmann::json& last_record() { return records_.back(); }
  std::map<std::string, std::string>& metadata() { return metadata_; }

  void write(const std::filesystem::path& file, std::int64_t shard = 0, bool is_last = true) {
    std::vector<std::pair<std::string, const StoredTensor*>> tensors;
    for (const auto& [name, tensor] : tensors_) tensors.emplace_back(name, &tensor);
    std::map<std::string, std::string> metadata = {{"driftbound.trace", "2"},
                                                   {"run", "a run"},
                                                   {"shard", std::to_string(shard)},
                                                   {"records", records_.dump()},
                                                   {"values", values_.dump()}};
    if (is_last) metadata["last"] = "true";
    for (const auto& [name, text] : metadata_) metadata[name] = text;
    write_safetensors(file, tensors, metadata);
  }

private:
  static nlohmann::json list(const Ids& ids) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& id : ids) list.push_back(id ? nlohmann::json(*id) : nlohmann::json());
    return list;
  }
  static StoredTensor integers(const std::vector<std::int64_t>& numbers) {
    return StoredTensor::from(Tensor<std::int64_t>({static_cast<std::int64_t>(numbers.size())}, numbers));
  }
  static StoredTensor picked(const StoredTensor& whole, const std::vector<std::int64_t>& numbers, Shape shape) {
    const std::size_t width = bytes_per_element(whole.type());
    std::vector<std::byte> bytes;
    for (const std::int64_t number : numbers) {
      const auto element = whole.bytes().subspan(static_cast<std::size_t>(number) * width, width);
      bytes.insert(bytes.end(), element.begin(), element.end());
    }
    return StoredTensor(whole.type(), std::move(shape), std::move(bytes));
  }

  std::map<std::string, StoredTensor> tensors_;
  nlohmann::json records_ = nlohmann::json::array(), values_ = nlohmann::json::object();
  std::map<std::string, std::string> metadata_;
};

}  // namespace driftbound::test
