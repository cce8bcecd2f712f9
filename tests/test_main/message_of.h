// Messages of errors.
#pragma once

#include <string>

namespace lt_test {

// The message of the error of type E that `body` throws. Other errors pass through.
template <class E, class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "no error was thrown";
}

}  // namespace lt_test
