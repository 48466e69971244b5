#include "model/wire.hpp"

#include <cstring>

#include "driftbound/num/errors.hpp"

namespace driftbound {
namespace {

constexpr int deepest_group = 64;
constexpr std::uint64_t largest_field = (std::uint64_t{1} << 29) - 1;

}  // namespace

std::uint64_t take_varint(WireReader::Bytes& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (bytes.empty()) throw ParseError("a number runs past the end of its message; the file is truncated or damaged");
    const auto byte = std::to_integer<std::uint64_t>(bytes.front());
    bytes = bytes.subspan(1);
    if (shift == 63 && byte > 1) break;
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  throw ParseError("a number is longer than 64 bits; the file is damaged");
}

void WireReader::fail(const std::string& why) const {
  throw ParseError(std::string(name_) + ": " + why);
}

std::uint64_t WireReader::raw_varint() {
  try {
    return take_varint(rest_);
  } catch (const ParseError& error) {
    fail(error.what());
  }
}

WireReader::Bytes WireReader::take(std::uint64_t size) {
  if (size > rest_.size()) {
    fail("field " + std::to_string(field_) + " is " + std::to_string(size) + " bytes long where " +
         std::to_string(rest_.size()) + " are left; the file is truncated or damaged");
  }
  const Bytes taken = rest_.first(static_cast<std::size_t>(size));
  rest_ = rest_.subspan(taken.size());
  return taken;
}

void WireReader::read_tag() {
  const std::uint64_t tag = raw_varint();
  const std::uint64_t number = tag >> 3;
  if (number == 0 || number > largest_field || (tag & 7) > 5)
    fail("not a protobuf field; the file is damaged or not ONNX");
  field_ = static_cast<int>(number);
  type_ = static_cast<WireType>(tag & 7);
}

bool WireReader::next() {
  if (unread_) skip();
  if (rest_.empty()) return false;
  read_tag();
  if (type_ == WireType::group_end) fail("a group ends that never began");
  unread_ = true;
  return true;
}

void WireReader::skip() {
  unread_ = false;
  switch (type_) {
    case WireType::varint:
      raw_varint();
      return;
    case WireType::fixed64:
      take(8);
      return;
    case WireType::fixed32:
      take(4);
      return;
    case WireType::bytes:
      take(raw_varint());
      return;
    case WireType::group_begin:
      skip_group();
      return;
    case WireType::group_end:
      return;
  }
}

/// Groups are no part of ONNX, but an unknown field may be one.
void WireReader::skip_group() {
  int open[deepest_group];
  int depth = 0;
  open[depth++] = field_;
  while (depth > 0) {
    read_tag();
    if (type_ == WireType::group_begin) {
      if (depth == deepest_group) fail("groups nested too deeply");
      open[depth++] = field_;
    } else if (type_ == WireType::group_end) {
      if (field_ != open[--depth]) fail("a group ends that never began");
    } else {
      skip();
    }
  }
}

void WireReader::require(WireType type) {
  unread_ = false;
  if (type_ != type)
    fail("field " + std::to_string(field_) + " is not of the type it must be; the file is damaged or not ONNX");
}

std::uint64_t WireReader::varint() {
  require(WireType::varint);
  return raw_varint();
}

WireReader::Bytes WireReader::bytes() {
  require(WireType::bytes);
  return take(raw_varint());
}

std::string_view WireReader::text() {
  const Bytes content = bytes();
  return {reinterpret_cast<const char*>(content.data()), content.size()};
}

float WireReader::fixed32() {
  require(WireType::fixed32);
  float value = 0.0f;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

WireReader::Bytes WireReader::repeated(WireType element) {
  if (type_ == WireType::bytes) return bytes();
  require(element);
  if (element == WireType::fixed32) return take(4);
  if (element == WireType::fixed64) return take(8);
  const Bytes before = rest_;
  raw_varint();
  return before.first(before.size() - rest_.size());
}

}  // namespace driftbound
