#pragma once

#include <stdexcept>
#include <string>

namespace driftbound {

/// Base of every exception this library throws on purpose.
/// The message says what is wrong, where, and what to do about it.
class Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// A file that is not what it claims to be: truncated, inconsistent or hostile.
class ParseError : public Error {
public:
  using Error::Error;
};

/// A well-formed request this version cannot serve (names the op, node and opset).
class Unsupported : public Error {
public:
  using Error::Error;
};

/// Shapes or element types that do not fit together (names the node or tensor).
class ShapeMismatch : public Error {
public:
  using Error::Error;
};

/// An argument outside its documented domain.
class InvalidArgument : public Error {
public:
  using Error::Error;
};

/// A backend or device that this machine does not have.
class NotAvailable : public Error {
public:
  using Error::Error;
};

/// A file that cannot be read or written.
class FileError : public Error {
public:
  using Error::Error;
};

/// The floating-point environment would make certificates wrong
/// (rounding mode not to nearest, or subnormals flushed to zero).
class UnsoundEnvironment : public Error {
public:
  using Error::Error;
};

}  // namespace driftbound
