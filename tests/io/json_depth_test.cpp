// Nesting depth of JSON texts, valid or not.
#include "io/json_depth.h"

#include <string>

#include "test_main/catch.h"

TEST_CASE("json_depth: arrays and objects count, brackets inside of strings do not", "[io]") {
  CHECK(lt::io::json_depth("") == 0);
  CHECK(lt::io::json_depth("1") == 0);
  CHECK(lt::io::json_depth("[]") == 1);
  CHECK(lt::io::json_depth(R"({"a":[1,{"b":2}],"c":[]})") == 3);
  CHECK(lt::io::json_depth(R"({"a":"[[[\"[[","b":[]})") == 2);
  CHECK(lt::io::json_depth(R"("\\[")") == 0);
  CHECK(lt::io::json_depth("]]][") == 0);
  CHECK(lt::io::json_depth(std::string(300000, '[')) == 300000);
}
