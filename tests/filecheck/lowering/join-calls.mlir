// RUN: openinfer-opt %s -p join-calls --split-input-file | filecheck %s

// Three products of one row, two of which write into states: one call, where the last one was, and one function
// with the ops of all. What is passed several times is one argument.
// CHECK-LABEL: func.func @step
// CHECK-NOT: func.call
// CHECK: %q = memref.alloc()
// CHECK: func.call @matvecs_0(%h, %w, %k, %wq, %q, %v) : (memref<1x512xf16>, memref<64x512xf16>, memref<1x64xf16>, memref<128x512xf16>, memref<1x128xf16>, memref<1x64xf16>) -> ()
// CHECK-NOT: func.call
// CHECK: func.return
// CHECK-LABEL: func.func private @matvecs_0
// CHECK-SAME: (%x: memref<1x512xf16>, %w: memref<64x512xf16>, %y: memref<1x64xf16>, %w_1: memref<128x512xf16>, %y_1: memref<1x128xf16>, %y_2: memref<1x64xf16>)
// CHECK-NEXT: nn.matvec(%x, %w) outs(%y)
// CHECK-NEXT: nn.matvec(%x, %w_1) outs(%y_1)
// CHECK-NEXT: nn.matvec(%x, %w) outs(%y_2)
// CHECK-NOT: func.func private
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {states = [
    {name = "K", dtype = "f16", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["1", "64"], fixed = {}, sources = [], marks = false},
    {name = "V", dtype = "f16", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["1", "64"], fixed = {}, sources = [], marks = false}]}
  func.func @step(%n: index) {
    %h = memref.alloc() {openinfer.memory = "device"} : memref<1x512xf16>
    %w = memref.alloc() {openinfer.memory = "device"} : memref<64x512xf16>
    %wq = memref.alloc() {openinfer.memory = "device"} : memref<128x512xf16>
    %k = nn.state_place "K"[%n] [] node 3 : i64 {openinfer.memory = "device"} : memref<1x64xf16>
    %v = nn.state_place "V"[%n] [] node 4 : i64 {openinfer.memory = "device"} : memref<1x64xf16>
    func.call @matvec_0(%h, %w, %k) : (memref<1x512xf16>, memref<64x512xf16>, memref<1x64xf16>) -> ()
    %q = memref.alloc() {openinfer.memory = "device"} : memref<1x128xf16>
    func.call @matvec_1(%h, %wq, %q) : (memref<1x512xf16>, memref<128x512xf16>, memref<1x128xf16>) -> ()
    func.call @matvec_0(%h, %w, %v) : (memref<1x512xf16>, memref<64x512xf16>, memref<1x64xf16>) -> ()
    func.return
  }
  func.func private @matvec_0(%x: memref<1x512xf16>, %w: memref<64x512xf16>, %y: memref<1x64xf16>) {
    nn.matvec(%x, %w) outs(%y) : (memref<1x512xf16>, memref<64x512xf16>, memref<1x64xf16>) -> ()
    func.return
  }
  func.func private @matvec_1(%x: memref<1x512xf16>, %w: memref<128x512xf16>, %y: memref<1x128xf16>) {
    nn.matvec(%x, %w) outs(%y) : (memref<1x512xf16>, memref<128x512xf16>, memref<1x128xf16>) -> ()
    func.return
  }
}
// -----
// Apart: one reads what the other writes; one writes into a state that another one reads; rows of another
// length; a transfer in between; a hint; and two that write the same place.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-10: func.call @matvec_
// CHECK-NOT: matvecs
builtin.module attributes {openinfer.target = "generic", openinfer.device = "vulkan"} {
  nn.interface {states = [
    {name = "K", dtype = "f16", axes = ["t"], tables = 1 : i64, base = ["0"], limits = [""], entry = ["1", "64"], fixed = {}, sources = [], marks = false}]}
  func.func @step(%n: index, %host: memref<1x64xf16>) {
    %w = memref.alloc() {openinfer.memory = "device"} : memref<64x64xf16>
    %a = memref.alloc() {openinfer.memory = "device"} : memref<1x64xf16>
    %b = memref.alloc() {openinfer.memory = "device"} : memref<1x64xf16>
    %c = memref.alloc() {openinfer.memory = "device"} : memref<1x64xf16>
    func.call @matvec_0(%a, %w, %b) : (memref<1x64xf16>, memref<64x64xf16>, memref<1x64xf16>) -> ()
    func.call @matvec_0(%b, %w, %c) : (memref<1x64xf16>, memref<64x64xf16>, memref<1x64xf16>) -> ()
    nn.transfer "to_host" %c, %host bytes <128> : memref<1x64xf16> to memref<1x64xf16>
    %k = nn.state_place "K"[%n] [] node 3 : i64 {openinfer.memory = "device"} : memref<1x64xf16>
    %l = nn.state_view "K"[%n] [] {openinfer.memory = "device"} : memref<1x64xf16>
    func.call @matvec_0(%a, %w, %k) : (memref<1x64xf16>, memref<64x64xf16>, memref<1x64xf16>) -> ()
    func.call @matvec_0(%l, %w, %c) : (memref<1x64xf16>, memref<64x64xf16>, memref<1x64xf16>) -> ()
    nn.transfer "to_host" %c, %host bytes <128> : memref<1x64xf16> to memref<1x64xf16>
    %d = memref.alloc() {openinfer.memory = "device"} : memref<1x128xf16>
    %x = memref.alloc() {openinfer.memory = "device"} : memref<64x128xf16>
    func.call @matvec_0(%a, %w, %b) : (memref<1x64xf16>, memref<64x64xf16>, memref<1x64xf16>) -> ()
    func.call @matvec_1(%d, %x, %c) : (memref<1x128xf16>, memref<64x128xf16>, memref<1x64xf16>) -> ()
    nn.transfer "to_host" %c, %host bytes <128> : memref<1x64xf16> to memref<1x64xf16>
    func.call @matvec_0(%a, %w, %b) : (memref<1x64xf16>, memref<64x64xf16>, memref<1x64xf16>) -> ()
    func.call @matvec_2(%a, %w, %c) : (memref<1x64xf16>, memref<64x64xf16>, memref<1x64xf16>) -> ()
    nn.transfer "to_host" %c, %host bytes <128> : memref<1x64xf16> to memref<1x64xf16>
    func.call @matvec_0(%a, %w, %c) : (memref<1x64xf16>, memref<64x64xf16>, memref<1x64xf16>) -> ()
    func.call @matvec_0(%a, %w, %c) : (memref<1x64xf16>, memref<64x64xf16>, memref<1x64xf16>) -> ()
    func.return
  }
  func.func private @matvec_0(%x: memref<1x64xf16>, %w: memref<64x64xf16>, %y: memref<1x64xf16>) {
    nn.matvec(%x, %w) outs(%y) : (memref<1x64xf16>, memref<64x64xf16>, memref<1x64xf16>) -> ()
    func.return
  }
  func.func private @matvec_1(%x: memref<1x128xf16>, %w: memref<64x128xf16>, %y: memref<1x64xf16>) {
    nn.matvec(%x, %w) outs(%y) : (memref<1x128xf16>, memref<64x128xf16>, memref<1x64xf16>) -> ()
    func.return
  }
  func.func private @matvec_2(%x: memref<1x64xf16>, %w: memref<64x64xf16>, %y: memref<1x64xf16>) {
    nn.matvec(%x, %w) outs(%y) attrs {openinfer.no_fuse} : (memref<1x64xf16>, memref<64x64xf16>, memref<1x64xf16>) -> ()
    func.return
  }
}
