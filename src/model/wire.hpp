#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace driftbound {

enum class WireType { varint = 0, fixed64 = 1, bytes = 2, group_begin = 3, group_end = 4, fixed32 = 5 };

/// Walks over the fields of one protobuf message in memory. Every length is checked against the end of the
/// message; nothing is copied. A field that is not read is skipped.
///
///   WireReader reader(bytes, "NodeProto");
///   while (reader.next()) {
///     if (reader.field() == 3) name = reader.text();
///   }
///
/// Throws:    ParseError naming the message, from every member that reads
class WireReader {
public:
  using Bytes = std::span<const std::byte>;

  WireReader(Bytes message, std::string_view name) : rest_(message), name_(name) {}

  /// Moves on to the next field; false at the end of the message.
  bool next();
  int field() const { return field_; }
  WireType type() const { return type_; }

  std::uint64_t varint();
  std::int64_t integer() { return static_cast<std::int64_t>(varint()); }
  Bytes bytes();
  std::string_view text();
  float fixed32();
  /// The elements of a repeated number, packed or single, as they lie in the file.
  Bytes repeated(WireType element);

private:
  void require(WireType type);
  void skip();
  void skip_group();
  void read_tag();
  std::uint64_t raw_varint();
  Bytes take(std::uint64_t size);
  [[noreturn]] void fail(const std::string& why) const;

  Bytes rest_;
  std::string_view name_;
  int field_ = 0;
  WireType type_ = WireType::varint;
  bool unread_ = false;
};

/// Takes one varint off the front.
/// Throws:    ParseError
std::uint64_t take_varint(WireReader::Bytes& bytes);

}  // namespace driftbound
