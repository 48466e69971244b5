#include "model/json_text.hpp"

#include <utility>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

using nlohmann::json;

constexpr std::size_t deepest_nesting = 16;

/// Builds the value while it checks it. (The library's own filter looks at all siblings after every object: a header of
/// many tensors would take quadratic time.)
class Builder final : public nlohmann::json_sax<json> {
public:
  Builder(const std::string& where, std::size_t memory) : where_(where), memory_left_(memory) {}

  json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override {
    count(bytes_per_allocation + 2 * value.size());
    return add(std::move(value));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    constexpr std::size_t bytes_per_key = 256;  // and what a reader keeps of it
    count(bytes_per_key + 2 * name.size());
    const auto [member, is_new] = open_.back()->emplace(name, nullptr);
    if (!is_new) throw ParseError(where_ + ": key " + in_quotes(name) + " occurs twice");
    member_ = &*member;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    const std::string_view what = error.what();  // "[json.exception.…] where and what"
    const std::size_t tag = what.find("] ");
    throw ParseError(where_ +
                     ": not valid JSON: " + printable(tag == std::string_view::npos ? what : what.substr(tag + 2)));
  }

private:
  static constexpr std::size_t bytes_per_allocation = 64;

  void count(std::size_t bytes) {
    if (bytes > memory_left_)
      throw ParseError(where_ + ": more values and keys than a text of its size justifies (64 MiB of memory)");
    memory_left_ -= bytes;
  }

  json* place(json value) {
    constexpr std::size_t bytes_per_value = 96;  // sixteen, in a list just grown and in the list of what to destroy
    count(bytes_per_value);
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*member_ = std::move(value));
    open_.back()->push_back(std::move(value));
    return &open_.back()->back();
  }
  bool add(json value) {
    place(std::move(value));
    return true;
  }
  bool open(json container) {
    count(bytes_per_allocation);
    if (open_.size() > deepest_nesting) throw ParseError(where_ + ": JSON nested too deeply");
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& where_;
  std::size_t memory_left_;
  json root_;
  json* member_ = nullptr;  ///< of the innermost object, waiting for its value
  std::vector<json*> open_;
};

}  // namespace

json parse_json(std::string_view text, const std::string& where) {
  Builder builder(where, (std::size_t{60} << 20) + text.size());
  json::sax_parse(text, &builder);
  return builder.take();
}

std::string dump_json(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::ignore);
}

}  // namespace driftbound
