// RUN: OI_ROUNDTRIP

// CHECK: func.func @layers
func.func @layers(%fed: tensor<?x?x20xf32, #nn.dims<T, B, 20>>, %h: tensor<?x5xf16, #nn.dims<B, 5>>, %w: tensor<20x5xf16>, %few: tensor<4x2x15xf32>, %s: tensor<2x5xf32>, %v: tensor<15x5xf32>, %bias: tensor<15xf32>) {
  // CHECK: %y, %hn, %cn = nn.lstm(%fed, %h, %h, %w) {reverse} : (tensor<?x?x20xf32, #nn.dims<T, B, 20>>, tensor<?x5xf16, #nn.dims<B, 5>>, tensor<?x5xf16, #nn.dims<B, 5>>, tensor<20x5xf16>) -> (tensor<?x?x5xf16, #nn.dims<T, B, 5>>, tensor<?x5xf16, #nn.dims<B, 5>>, tensor<?x5xf16, #nn.dims<B, 5>>)
  %y, %hn, %cn = nn.lstm(%fed, %h, %h, %w) {reverse} : (tensor<?x?x20xf32, #nn.dims<T, B, 20>>, tensor<?x5xf16, #nn.dims<B, 5>>, tensor<?x5xf16, #nn.dims<B, 5>>, tensor<20x5xf16>) -> (tensor<?x?x5xf16, #nn.dims<T, B, 5>>, tensor<?x5xf16, #nn.dims<B, 5>>, tensor<?x5xf16, #nn.dims<B, 5>>)
  // CHECK: %g, %gn = nn.gru(%few, %s, %v, %bias) : (tensor<4x2x15xf32>, tensor<2x5xf32>, tensor<15x5xf32>, tensor<15xf32>) -> (tensor<4x2x5xf32>, tensor<2x5xf32>)
  %g, %gn = nn.gru(%few, %s, %v, %bias) : (tensor<4x2x15xf32>, tensor<2x5xf32>, tensor<15x5xf32>, tensor<15xf32>) -> (tensor<4x2x5xf32>, tensor<2x5xf32>)
  func.return
}

// CHECK: func.func @transforms
func.func @transforms(%x: tensor<3x?xf32, #nn.dims<3, N>>) {
  // CHECK: %b = nn.rfft(%x) {n = #graph.size<N>, norm = "ortho"} : (tensor<3x?xf32, #nn.dims<3, N>>) -> tensor<3x?x2xf32, #nn.dims<3, "N/2 + 1", 2>>
  %b = nn.rfft(%x) {n = #graph.size<N>, norm = "ortho"} : (tensor<3x?xf32, #nn.dims<3, N>>) -> tensor<3x?x2xf32, #nn.dims<3, "floordiv(N, 2) + 1", 2>>
  // CHECK: %s = nn.irfft(%b) {n = #graph.size<9>, norm = "backward"} : (tensor<3x?x2xf32, #nn.dims<3, "N/2 + 1", 2>>) -> tensor<3x9xf16>
  %s = nn.irfft(%b) {n = #graph.size<9>, norm = "backward"} : (tensor<3x?x2xf32, #nn.dims<3, "floordiv(N, 2) + 1", 2>>) -> tensor<3x9xf16>
  func.return
}

// CHECK: func.func @pairs
func.func @pairs(%x: tensor<2x?x8xf16, #nn.dims<2, T, 8>>, %c: tensor<?x4xf32, #nn.dims<T, 4>>) {
  // CHECK: %r = nn.rotary(%x, %c, %c) {interleaved} : (tensor<2x?x8xf16, #nn.dims<2, T, 8>>, tensor<?x4xf32, #nn.dims<T, 4>>, tensor<?x4xf32, #nn.dims<T, 4>>) -> tensor<2x?x8xf32, #nn.dims<2, T, 8>>
  %r = nn.rotary(%x, %c, %c) {interleaved} : (tensor<2x?x8xf16, #nn.dims<2, T, 8>>, tensor<?x4xf32, #nn.dims<T, 4>>, tensor<?x4xf32, #nn.dims<T, 4>>) -> tensor<2x?x8xf32, #nn.dims<2, T, 8>>
  func.return
}
