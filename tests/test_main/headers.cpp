// Contains no code. The headers that tests share are precompiled with it (tests/CMakeLists.txt).
int main() {}
