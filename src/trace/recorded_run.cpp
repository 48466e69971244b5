#include "driftbound/trace/recorded_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/function_libraries.hpp"
#include "model/json_text.hpp"
#include "model/safetensors.hpp"
#include "model/text.hpp"
#include "trace/trace_parse.hpp"

namespace driftbound {
namespace {

using nlohmann::json;

constexpr const char* recording_key = "driftbound.trace";
constexpr std::string_view recording_version = "2";
constexpr std::size_t deepest_attribute = 8;

std::string metadata_or(const SafetensorsFile& file, const std::string& key, const std::string& fallback) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? fallback : found->second;
}

/// Throws:    ParseError
Attribute attribute_of(const json& value, const std::string& where, std::size_t depth = 0) {
  if (value.is_null()) return {};
  if (value.is_boolean()) return {value.get<bool>()};
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > most))
    return {value.get<std::int64_t>()};
  if (value.is_number()) return {value.get<double>()};
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array() || depth == deepest_attribute)
    throw ParseError(where + ": an attribute is neither a number, a text, a truth value, null nor a list of these");
  Attribute::List list;
  for (const json& element : value) list.push_back(attribute_of(element, where, depth + 1));
  return {std::move(list)};
}

std::string text_or(const json& object, const char* key, const std::string& fallback, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return fallback;
  if (!found->is_string()) throw ParseError(fmt::format("{}: \"{}\" is no text", where, key));
  return found->get<std::string>();
}

std::int64_t integer_or(const json& object, const char* key, std::int64_t fallback, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return fallback;
  if (!found->is_number_integer()) throw ParseError(fmt::format("{}: \"{}\" is no whole number", where, key));
  return found->get<std::int64_t>();
}

std::vector<std::optional<std::string>> ids_of(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) throw ParseError(fmt::format("{}: \"{}\" is no list", where, key));
  std::vector<std::optional<std::string>> ids;
  for (const json& id : *found) {
    if (!id.is_null() && !id.is_string())
      throw ParseError(fmt::format("{}: \"{}\" holds no ids of values", where, key));
    ids.push_back(id.is_null() ? std::nullopt : std::optional(id.get<std::string>()));
  }
  return ids;
}

Record record_of(const json& object, const std::string& where) {
  if (!object.is_object()) throw ParseError(where + " is no JSON object");
  Record record;
  record.op = text_or(object, "op", "", where);
  if (record.op.empty()) throw ParseError(where + " has no \"op\"");
  record.opset = integer_or(object, "opset", 21, where);
  record.module = text_or(object, "module", "", where);
  record.name = text_or(object, "name", "", where);
  record.device = text_or(object, "device", "", where);
  record.rank = integer_or(object, "rank", 0, where);
  record.arithmetic = text_or(object, "arithmetic", "", where);
  record.operands = ids_of(object, "operands", where);
  record.results = ids_of(object, "results", where);
  const auto attributes = object.find("attributes");
  if (attributes == object.end() || attributes->is_null()) return record;
  if (!attributes->is_object()) throw ParseError(where + ": \"attributes\" is no JSON object");
  for (const auto& item : attributes->items())
    record.attributes.emplace(item.key(), attribute_of(item.value(), where + ", attribute " + in_quotes(item.key())));
  return record;
}

std::filesystem::path shard_path(const std::filesystem::path& first, std::int64_t number) {
  return first.parent_path() / fmt::format("{}-{:05}{}", first.stem().string(), number, first.extension().string());
}

/// Numbers of the shards that lie beside the first one.
std::set<std::int64_t> further_shards(const std::filesystem::path& first) {
  constexpr std::size_t digits = 5;
  const std::string stem = first.stem().string() + "-";
  std::set<std::int64_t> numbers;
  std::error_code error;
  const std::filesystem::path folder = first.parent_path().empty() ? "." : first.parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != first.extension() || !name.starts_with(stem)) continue;
    const std::string number = name.substr(stem.size());
    const bool is_number =
        number.size() >= digits && number.size() < 18 && number.find_first_not_of("0123456789") == std::string::npos;
    if (is_number) numbers.insert(std::stoll(number));
  }
  return numbers;
}

/// Functions of float64, which are as accurate as every library says of its own: within 2 units in the last place.
std::vector<FunctionAccuracy> assumed_functions_in_double() {
  constexpr double units = 4.0;
  std::vector<FunctionAccuracy> functions = cpu_arithmetic("fp64", {}).functions;
  for (FunctionAccuracy& function : functions) {
    const bool is_exact_op = function.function == "sqrt";
    if (!is_exact_op) function.units = units;
    function.evidence = Evidence::assumed;
    function.source = is_exact_op ? "IEEE 754, correctly rounded" : "2 units in the last place of float64";
  }
  return functions;
}

/// A value as the run describes it.
struct ValueEntry {
  ElementType type = ElementType::f32;
  Shape shape;
  std::size_t shard = 0;  ///< position among those that were read
  std::string file, name;
  json part;
  std::optional<std::size_t> producer;
};

/// A file with weights.
struct WeightFile {
  std::filesystem::path path;
  std::string sha256;
  std::unique_ptr<SafetensorsFile> opened;
};

}  // namespace

bool is_recorded_run(const std::filesystem::path& file) {
  if (file.extension() != ".safetensors") return false;
  return metadata_or(SafetensorsFile(file), recording_key, "") == recording_version;
}

struct RecordedRun::State {
  std::filesystem::path first;
  std::string where;
  std::vector<SafetensorsFile> shards;
  std::vector<Record> records;
  std::map<std::string, ValueEntry> values;
  std::map<std::string, ArithmeticModel> arithmetics;
  Provenance provenance;
  std::vector<std::string> problems;
  std::mutex opening;
  std::map<std::string, WeightFile> files;
  std::string functions = "cuda";

  void read() {
    SafetensorsFile file(first);
    if (metadata_or(file, recording_key, "") != recording_version)
      throw ParseError(where + ": no recorded run (its metadata 'driftbound.trace' is not \"2\")");
    if (metadata_or(file, "shard", "0") != "0")
      throw InvalidArgument(where + ": this is a further shard; name the first one, without a number");
    const std::string run = metadata_or(file, "run", "");
    read_first(file);
    bool has_last = metadata_or(file, "last", "") == "true";
    add(std::move(file), where);
    std::int64_t expected = 1;
    for (const std::int64_t number : further_shards(first)) {
      if (number < 1) continue;
      for (; expected < number; ++expected) miss(expected);
      expected = number + 1;
      has_last = add_further(number, run) || has_last;
    }
    if (!has_last)
      problems.push_back(
          fmt::format("The recording did not end in an orderly way: it has {} records up to there.", records.size()));
    note_what_the_recorder_says();
    name_records();
    find_producers();
  }

  void note_what_the_recorder_says() {
    const auto note = [&](const char* key, const char* sentence) {
      const auto found = provenance.details.find(key);
      if (found != provenance.details.end() && !found->second.empty())
        problems.push_back(fmt::format("{}: {}.", sentence, printable(found->second)));
    };
    note("ended_by", "An exception ended the recording");
    note("not_seen", "The recording lacks what could not be seen");
  }

  void miss(std::int64_t number) {
    problems.push_back(fmt::format("The shard {} is missing: what it holds is not judged.",
                                   in_quotes(shard_path(first, number).filename().string())));
  }

  /// Returns whether it is the last one.
  bool add_further(std::int64_t number, const std::string& run) {
    const std::filesystem::path path = shard_path(first, number);
    const std::string name = in_quotes(path.filename().string());
    try {
      SafetensorsFile shard(path);
      if (metadata_or(shard, "run", "") != run) {
        problems.push_back("The shard " + name + " is of another run: it is left out.");
        return false;
      }
      const bool is_last = metadata_or(shard, "last", "") == "true";
      const std::string text = metadata_or(shard, "provenance", "");
      std::optional<Provenance> known;
      if (!text.empty()) known = provenance_from_json(text, printable(path.string()));
      add(std::move(shard), printable(path.string()));
      if (known) provenance = std::move(*known);  // a later shard knows more of the run
      return is_last;
    } catch (const Error& error) {
      problems.push_back("The shard " + name + " is left out: " + error.what() + ".");
      return false;
    }
  }

  void read_first(const SafetensorsFile& file) {
    if (const std::string text = metadata_or(file, "provenance", ""); !text.empty())
      provenance = provenance_from_json(text, where);
    functions = assumed_functions(provenance);
    const json declared = parse_json(metadata_or(file, "arithmetics", "{}"), where + ": arithmetics");
    for (const auto& item : declared.items())
      arithmetics.emplace(item.key(), arithmetic_from_json(dump_json(item.value())));
    const json weights = parse_json(metadata_or(file, "files", "{}"), where + ": files");
    for (const auto& item : weights.items()) {
      const std::string at = where + ": files, " + in_quotes(item.key());
      if (!item.value().is_object()) throw ParseError(at + " is no JSON object");
      const std::filesystem::path path = text_or(item.value(), "path", item.key(), at);
      files[item.key()] = {path.is_absolute() ? path : first.parent_path() / path,
                           text_or(item.value(), "sha256", "", at), nullptr};
    }
  }

  /// A damaged record or value makes the records that need it unjudged, and no others.
  void add(SafetensorsFile shard, const std::string& at) {
    const json described = parse_json(metadata_or(shard, "values", "{}"), at + ": values");
    const json recorded = parse_json(metadata_or(shard, "records", "[]"), at + ": records");
    if (!described.is_object() || !recorded.is_array())
      throw ParseError(at + ": 'values' is no JSON object, or 'records' no JSON list");
    for (const auto& item : described.items()) add_value(item.key(), item.value(), at);
    for (std::size_t i = 0; i < recorded.size(); ++i) {
      try {
        records.push_back(record_of(recorded[i], at + ": record " + std::to_string(i)));
      } catch (const Error& error) {
        problems.push_back(std::string(error.what()) + ": it is not judged.");
      }
    }
    shards.push_back(std::move(shard));
  }

  void add_value(const std::string& id, const json& object, const std::string& at) {
    const std::string here = at + ": value " + in_quotes(id);
    try {
      if (!object.is_object()) throw ParseError(here + " is no JSON object");
      ValueEntry entry;
      const std::string type = text_or(object, "type", "", here);
      const std::optional<ElementType> known = element_type_of(type);
      if (!known) throw Unsupported(here + " has the element type " + in_quotes(type) + ", which is not supported");
      entry.type = *known;
      const auto shape = object.find("shape");
      if (shape == object.end() || !shape->is_array()) throw ParseError(here + " has no \"shape\"");
      for (const json& extent : *shape) {
        if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > std::uint64_t{1} << 40)
          throw ParseError(here + ": its shape has an extent that is no number of elements");
        entry.shape.push_back(extent.get<std::int64_t>());
      }
      if (element_count(entry.shape) > std::int64_t{1} << 40) throw ParseError(here + " has more than 2^40 elements");
      entry.shard = shards.size();
      entry.file = text_or(object, "file", "", here);
      const bool is_no_text = entry.file.empty() && object.contains("name") && !object["name"].is_string();
      if (!is_no_text) entry.name = text_or(object, "name", "", here);  // else it is a label that says nothing
      if (object.contains("part")) entry.part = object["part"];
      if (!values.emplace(id, std::move(entry)).second)
        throw ParseError(here + " is described twice; the first description is taken");
    } catch (const Error& error) {
      problems.push_back(std::string(error.what()) + ".");
    }
  }

  void name_records() {
    std::map<std::string, std::size_t> uses;
    for (Record& record : records) {
      if (record.name.empty()) record.name = record.module.empty() ? record.op : record.module + "/" + record.op;
      const std::size_t use = ++uses[record.name];
      if (use > 1) record.name += fmt::format("#{}", use);
    }
  }

  void find_producers() {
    for (std::size_t i = 0; i < records.size(); ++i)
      for (const std::optional<std::string>& id : records[i].results) {
        const auto found = id ? values.find(*id) : values.end();
        if (found != values.end() && !found->second.producer) found->second.producer = i;
      }
  }

  const ValueEntry& entry(const std::string& id) const {
    const auto found = values.find(id);
    if (found == values.end()) throw InvalidArgument("the recording describes no value " + in_quotes(id));
    return found->second;
  }

  std::string key_of(const std::string& id) const { return "value/" + id; }

  StoredTensor tensor_of_file(const ValueEntry& value, const std::string& id) {
    const std::lock_guard lock(opening);
    const auto found = files.find(value.file);
    if (found == files.end())
      throw ParseError("'files' has no " + in_quotes(value.file) + ", of value " + in_quotes(id));
    WeightFile& file = found->second;
    if (file.opened == nullptr) {
      if (!file.sha256.empty() && sha256_of_file(file.path) != file.sha256)
        throw InvalidArgument("the file of weights " + in_quotes(file.path.string()) +
                              " is another one than the run used (sha256)");
      file.opened = std::make_unique<SafetensorsFile>(file.path);
    }
    if (!file.opened->contains(value.name))
      throw ParseError("the file " + in_quotes(file.path.string()) + " has no tensor " + in_quotes(value.name));
    return file.opened->tensor(value.name);
  }

  std::vector<std::int64_t> indices(const ValueEntry& value, const std::string& key, std::int64_t below) const {
    const SafetensorsFile& shard = shards.at(value.shard);
    if (!shard.contains(key)) throw ParseError("the tensor " + in_quotes(key) + " is missing");
    std::vector<std::int64_t> indices = shard.tensor(key).to_int64().values;
    for (std::size_t i = 0; i < indices.size(); ++i)
      if (indices[i] < 0 || indices[i] >= below || (i > 0 && indices[i] <= indices[i - 1]))
        throw ParseError("the indices of " + in_quotes(key) + " do not ascend within the value");
    return indices;
  }
};

RecordedRun::RecordedRun(const std::filesystem::path& file) : state_(std::make_unique<State>()) {
  state_->first = file;
  state_->where = printable(file.string());
  state_->read();
}
RecordedRun::~RecordedRun() = default;
RecordedRun::RecordedRun(RecordedRun&&) noexcept = default;
RecordedRun& RecordedRun::operator=(RecordedRun&&) noexcept = default;

const std::vector<Record>& RecordedRun::records() const {
  return state_->records;
}
const Provenance& RecordedRun::provenance() const {
  return state_->provenance;
}
const std::vector<std::string>& RecordedRun::problems() const {
  return state_->problems;
}

ArithmeticModel RecordedRun::arithmetic_of(const Record& record, bool is_double) const {
  const auto declared = state_->arithmetics.find(record.arithmetic);
  if (declared != state_->arithmetics.end()) {
    ArithmeticModel arithmetic = declared->second;
    if (arithmetic.functions.empty() && arithmetic.accumulator == FormatId::fp64)
      arithmetic.functions = assumed_functions_in_double();
    return arithmetic;
  }
  if (record.arithmetic == "fp64" || (record.arithmetic.empty() && is_double)) {
    ArithmeticModel arithmetic = cpu_arithmetic("fp64", {});
    arithmetic.functions = assumed_functions_in_double();
    arithmetic.evidence = Evidence::assumed;
    arithmetic.stores_declared_types = true;
    return arithmetic;
  }
  ArithmeticModel arithmetic = assumed_arithmetic(state_->functions);
  arithmetic.source = "default: the recording states no arithmetic of this record";
  arithmetic.stores_declared_types = true;
  if (record.arithmetic.empty() || record.arithmetic == "fp32") return arithmetic;
  for (const FormatId input : {FormatId::tf32, FormatId::bf16, FormatId::fp16}) {
    if (format(input).name != record.arithmetic) continue;
    arithmetic.name = record.arithmetic;
    arithmetic.input = input;
    return arithmetic;
  }
  throw InvalidArgument("the recording declares no arithmetic " + in_quotes(record.arithmetic));
}

bool RecordedRun::has(const std::string& id) const {
  return state_->values.contains(id);
}
std::string RecordedRun::called(const std::string& id) const {
  const ValueEntry* value = &state_->entry(id);
  constexpr int most_moves = 16;
  for (int moves = 0; moves < most_moves && value->name.empty() && value->producer; ++moves) {
    const Record& record = state_->records[*value->producer];
    if (record.operands.size() != 1 || !record.operands.front() || !has(*record.operands.front()) || is_stored(id))
      return id;
    value = &state_->entry(*record.operands.front());
  }
  return value->name.empty() ? id : printable(value->name);
}
ElementType RecordedRun::type_of(const std::string& id) const {
  return state_->entry(id).type;
}
const Shape& RecordedRun::shape_of(const std::string& id) const {
  return state_->entry(id).shape;
}
std::optional<std::size_t> RecordedRun::producer_of(const std::string& id) const {
  return state_->entry(id).producer;
}

bool RecordedRun::is_stored(const std::string& id) const {
  const ValueEntry& value = state_->entry(id);
  return !value.file.empty() || state_->shards.at(value.shard).contains(state_->key_of(id));
}

std::optional<RecordedPart> RecordedRun::part_of(const std::string& id) const {
  const ValueEntry& value = state_->entry(id);
  if (value.part.is_null()) return std::nullopt;
  const std::string where = "value " + in_quotes(id) + ": its \"part\"";
  if (!value.part.is_object()) throw ParseError(where + " is no JSON object");
  RecordedPart part;
  part.draws = std::max<std::int64_t>(integer_or(value.part, "draws", 0, where), 0);
  if (value.part.contains("elements")) {
    part.elements = state_->indices(value, state_->key_of(id) + "/elements", element_count(value.shape));
    return part;
  }
  if (!value.part.contains("axes") || !value.part["axes"].is_array())
    throw ParseError(where + " has neither \"axes\" nor \"elements\"");
  for (const json& axis : value.part["axes"]) {
    if (!axis.is_number_unsigned() || axis.get<std::uint64_t>() >= value.shape.size())
      throw ParseError(where + " names an axis that the value does not have");
    const auto at = axis.get<std::size_t>();
    part.axes[at] = state_->indices(value, fmt::format("{}/axis/{}", state_->key_of(id), at), value.shape[at]);
  }
  return part;
}

void RecordedRun::release_pages() const {
  const std::lock_guard lock(state_->opening);
  for (const SafetensorsFile& shard : state_->shards) shard.release_pages();
  for (const auto& [name, file] : state_->files)
    if (file.opened != nullptr) file.opened->release_pages();
}

StoredTensor RecordedRun::stored(const std::string& id) const {
  const ValueEntry& value = state_->entry(id);
  if (!is_stored(id)) throw Unsupported("the numbers of value " + in_quotes(id) + " are not recorded");
  StoredTensor tensor = value.file.empty() ? state_->shards.at(value.shard).tensor(state_->key_of(id))
                                           : state_->tensor_of_file(value, id);
  Shape expected = value.shape;
  if (const std::optional<RecordedPart> part = part_of(id)) {
    if (part->elements) expected = {static_cast<std::int64_t>(part->elements->size())};
    for (const auto& [axis, indices] : part->axes) expected[axis] = static_cast<std::int64_t>(indices.size());
  }
  if (tensor.type() != value.type || tensor.shape() != expected)
    throw ShapeMismatch(fmt::format("value {} is stored as {} {}, and described as {} {}", in_quotes(id),
                                    name_of(tensor.type()), to_string(tensor.shape()), name_of(value.type),
                                    to_string(expected)));
  return tensor;
}

}  // namespace driftbound
