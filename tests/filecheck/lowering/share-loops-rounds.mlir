// RUN: openinfer-opt %s -p share-loops --split-input-file | filecheck %s

// The rounds of a large loop are a function, which the form for one thread calls once, and the shared form for
// each chunk. Constants are said again in it.

// CHECK-LABEL: func.func @step
// CHECK: func.func private @scale_0(%[[X:x\S*]]: memref<65536xf32>) {
// CHECK-NOT: openinfer_team
// CHECK: func.call @scale_0_rounds0(%[[X]], %{{\S+}}, %{{\S+}}) {openinfer.rounds = 4 : index}
// CHECK-NEXT: func.return
// CHECK: func.func private @scale_0_rounds0(%{{\S+}}: memref<65536xf32>, %[[LOW:low\S*]]: index, %[[HIGH:high\S*]]: index) {
// CHECK: %[[STEP:\S+]] = arith.constant 4 : index
// CHECK: scf.for %{{\S+}} = %[[LOW]] to %[[HIGH]] step %[[STEP]] {
// CHECK: func.func private @scale_0_shared(
// CHECK: func.call @openinfer_team_take
// CHECK: func.call @scale_0_rounds0(%{{\S+}}, %{{\S+}}, %{{\S+}}) :
// CHECK-NEXT: func.call @openinfer_team_done
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%c: memref<i8>, %x: memref<65536xf32>) {
  %zero = arith.constant 0 : i8
  %v = memref.load %c[] : memref<i8>
  %yes = arith.cmpi ne, %v, %zero : i8
  scf.if %yes {
    func.call @scale_0(%x) : (memref<65536xf32>) -> ()
  }
  func.return
}
func.func private @scale_0(%x: memref<65536xf32>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %end = arith.constant 65536 : index
  %s = arith.constant 0.5 : f32
  scf.for %i = %c0 to %end step %c4 {
    %v0 = memref.load %x[%i] : memref<65536xf32>
    %v1 = arith.addf %v0, %s : f32
    %v2 = arith.addf %v1, %s : f32
    %v3 = arith.addf %v2, %s : f32
    %v4 = arith.addf %v3, %s : f32
    %v5 = arith.addf %v4, %s : f32
    %v6 = arith.addf %v5, %s : f32
    %v7 = arith.addf %v6, %s : f32
    %v8 = arith.addf %v7, %s : f32
    %v9 = arith.addf %v8, %s : f32
    %v10 = arith.addf %v9, %s : f32
    %v11 = arith.addf %v10, %s : f32
    %v12 = arith.addf %v11, %s : f32
    %v13 = arith.addf %v12, %s : f32
    %v14 = arith.addf %v13, %s : f32
    %v15 = arith.addf %v14, %s : f32
    %v16 = arith.addf %v15, %s : f32
    %v17 = arith.addf %v16, %s : f32
    %v18 = arith.addf %v17, %s : f32
    %v19 = arith.addf %v18, %s : f32
    %v20 = arith.addf %v19, %s : f32
    %v21 = arith.addf %v20, %s : f32
    %v22 = arith.addf %v21, %s : f32
    %v23 = arith.addf %v22, %s : f32
    %v24 = arith.addf %v23, %s : f32
    %v25 = arith.addf %v24, %s : f32
    %v26 = arith.addf %v25, %s : f32
    %v27 = arith.addf %v26, %s : f32
    %v28 = arith.addf %v27, %s : f32
    %v29 = arith.addf %v28, %s : f32
    %v30 = arith.addf %v29, %s : f32
    %v31 = arith.addf %v30, %s : f32
    %v32 = arith.addf %v31, %s : f32
    %v33 = arith.addf %v32, %s : f32
    %v34 = arith.addf %v33, %s : f32
    %v35 = arith.addf %v34, %s : f32
    %v36 = arith.addf %v35, %s : f32
    %v37 = arith.addf %v36, %s : f32
    %v38 = arith.addf %v37, %s : f32
    %v39 = arith.addf %v38, %s : f32
    %v40 = arith.addf %v39, %s : f32
    %v41 = arith.addf %v40, %s : f32
    %v42 = arith.addf %v41, %s : f32
    %v43 = arith.addf %v42, %s : f32
    %v44 = arith.addf %v43, %s : f32
    %v45 = arith.addf %v44, %s : f32
    %v46 = arith.addf %v45, %s : f32
    %v47 = arith.addf %v46, %s : f32
    %v48 = arith.addf %v47, %s : f32
    %v49 = arith.addf %v48, %s : f32
    %v50 = arith.addf %v49, %s : f32
    %v51 = arith.addf %v50, %s : f32
    %v52 = arith.addf %v51, %s : f32
    %v53 = arith.addf %v52, %s : f32
    %v54 = arith.addf %v53, %s : f32
    %v55 = arith.addf %v54, %s : f32
    %v56 = arith.addf %v55, %s : f32
    %v57 = arith.addf %v56, %s : f32
    %v58 = arith.addf %v57, %s : f32
    %v59 = arith.addf %v58, %s : f32
    %v60 = arith.addf %v59, %s : f32
    %v61 = arith.addf %v60, %s : f32
    %v62 = arith.addf %v61, %s : f32
    %v63 = arith.addf %v62, %s : f32
    %v64 = arith.addf %v63, %s : f32
    %v65 = arith.addf %v64, %s : f32
    %v66 = arith.addf %v65, %s : f32
    %v67 = arith.addf %v66, %s : f32
    %v68 = arith.addf %v67, %s : f32
    %v69 = arith.addf %v68, %s : f32
    %v70 = arith.addf %v69, %s : f32
    %v71 = arith.addf %v70, %s : f32
    %v72 = arith.addf %v71, %s : f32
    %v73 = arith.addf %v72, %s : f32
    %v74 = arith.addf %v73, %s : f32
    %v75 = arith.addf %v74, %s : f32
    %v76 = arith.addf %v75, %s : f32
    %v77 = arith.addf %v76, %s : f32
    %v78 = arith.addf %v77, %s : f32
    %v79 = arith.addf %v78, %s : f32
    %v80 = arith.addf %v79, %s : f32
    %v81 = arith.addf %v80, %s : f32
    %v82 = arith.addf %v81, %s : f32
    %v83 = arith.addf %v82, %s : f32
    %v84 = arith.addf %v83, %s : f32
    %v85 = arith.addf %v84, %s : f32
    %v86 = arith.addf %v85, %s : f32
    %v87 = arith.addf %v86, %s : f32
    %v88 = arith.addf %v87, %s : f32
    %v89 = arith.addf %v88, %s : f32
    %v90 = arith.addf %v89, %s : f32
    %v91 = arith.addf %v90, %s : f32
    %v92 = arith.addf %v91, %s : f32
    %v93 = arith.addf %v92, %s : f32
    %v94 = arith.addf %v93, %s : f32
    %v95 = arith.addf %v94, %s : f32
    %v96 = arith.addf %v95, %s : f32
    %v97 = arith.addf %v96, %s : f32
    %v98 = arith.addf %v97, %s : f32
    %v99 = arith.addf %v98, %s : f32
    %v100 = arith.addf %v99, %s : f32
    %v101 = arith.addf %v100, %s : f32
    %v102 = arith.addf %v101, %s : f32
    %v103 = arith.addf %v102, %s : f32
    %v104 = arith.addf %v103, %s : f32
    %v105 = arith.addf %v104, %s : f32
    %v106 = arith.addf %v105, %s : f32
    %v107 = arith.addf %v106, %s : f32
    %v108 = arith.addf %v107, %s : f32
    %v109 = arith.addf %v108, %s : f32
    %v110 = arith.addf %v109, %s : f32
    memref.store %v110, %x[%i] : memref<65536xf32>
  } {openinfer.parallel}
  func.return
}
}

// -----

// Here a float is used that was read before the loop.

// CHECK-LABEL: func.func @step
// CHECK-NOT: _rounds0
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%c: memref<i8>, %x: memref<65536xf32>) {
  %zero = arith.constant 0 : i8
  %v = memref.load %c[] : memref<i8>
  %yes = arith.cmpi ne, %v, %zero : i8
  scf.if %yes {
    func.call @scale_0(%x) : (memref<65536xf32>) -> ()
  }
  func.return
}
func.func private @scale_0(%x: memref<65536xf32>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %end = arith.constant 65536 : index
  %s = memref.load %x[%c0] : memref<65536xf32>
  scf.for %i = %c0 to %end step %c4 {
    %v0 = memref.load %x[%i] : memref<65536xf32>
    %v1 = arith.addf %v0, %s : f32
    %v2 = arith.addf %v1, %s : f32
    %v3 = arith.addf %v2, %s : f32
    %v4 = arith.addf %v3, %s : f32
    %v5 = arith.addf %v4, %s : f32
    %v6 = arith.addf %v5, %s : f32
    %v7 = arith.addf %v6, %s : f32
    %v8 = arith.addf %v7, %s : f32
    %v9 = arith.addf %v8, %s : f32
    %v10 = arith.addf %v9, %s : f32
    %v11 = arith.addf %v10, %s : f32
    %v12 = arith.addf %v11, %s : f32
    %v13 = arith.addf %v12, %s : f32
    %v14 = arith.addf %v13, %s : f32
    %v15 = arith.addf %v14, %s : f32
    %v16 = arith.addf %v15, %s : f32
    %v17 = arith.addf %v16, %s : f32
    %v18 = arith.addf %v17, %s : f32
    %v19 = arith.addf %v18, %s : f32
    %v20 = arith.addf %v19, %s : f32
    %v21 = arith.addf %v20, %s : f32
    %v22 = arith.addf %v21, %s : f32
    %v23 = arith.addf %v22, %s : f32
    %v24 = arith.addf %v23, %s : f32
    %v25 = arith.addf %v24, %s : f32
    %v26 = arith.addf %v25, %s : f32
    %v27 = arith.addf %v26, %s : f32
    %v28 = arith.addf %v27, %s : f32
    %v29 = arith.addf %v28, %s : f32
    %v30 = arith.addf %v29, %s : f32
    %v31 = arith.addf %v30, %s : f32
    %v32 = arith.addf %v31, %s : f32
    %v33 = arith.addf %v32, %s : f32
    %v34 = arith.addf %v33, %s : f32
    %v35 = arith.addf %v34, %s : f32
    %v36 = arith.addf %v35, %s : f32
    %v37 = arith.addf %v36, %s : f32
    %v38 = arith.addf %v37, %s : f32
    %v39 = arith.addf %v38, %s : f32
    %v40 = arith.addf %v39, %s : f32
    %v41 = arith.addf %v40, %s : f32
    %v42 = arith.addf %v41, %s : f32
    %v43 = arith.addf %v42, %s : f32
    %v44 = arith.addf %v43, %s : f32
    %v45 = arith.addf %v44, %s : f32
    %v46 = arith.addf %v45, %s : f32
    %v47 = arith.addf %v46, %s : f32
    %v48 = arith.addf %v47, %s : f32
    %v49 = arith.addf %v48, %s : f32
    %v50 = arith.addf %v49, %s : f32
    %v51 = arith.addf %v50, %s : f32
    %v52 = arith.addf %v51, %s : f32
    %v53 = arith.addf %v52, %s : f32
    %v54 = arith.addf %v53, %s : f32
    %v55 = arith.addf %v54, %s : f32
    %v56 = arith.addf %v55, %s : f32
    %v57 = arith.addf %v56, %s : f32
    %v58 = arith.addf %v57, %s : f32
    %v59 = arith.addf %v58, %s : f32
    %v60 = arith.addf %v59, %s : f32
    %v61 = arith.addf %v60, %s : f32
    %v62 = arith.addf %v61, %s : f32
    %v63 = arith.addf %v62, %s : f32
    %v64 = arith.addf %v63, %s : f32
    %v65 = arith.addf %v64, %s : f32
    %v66 = arith.addf %v65, %s : f32
    %v67 = arith.addf %v66, %s : f32
    %v68 = arith.addf %v67, %s : f32
    %v69 = arith.addf %v68, %s : f32
    %v70 = arith.addf %v69, %s : f32
    %v71 = arith.addf %v70, %s : f32
    %v72 = arith.addf %v71, %s : f32
    %v73 = arith.addf %v72, %s : f32
    %v74 = arith.addf %v73, %s : f32
    %v75 = arith.addf %v74, %s : f32
    %v76 = arith.addf %v75, %s : f32
    %v77 = arith.addf %v76, %s : f32
    %v78 = arith.addf %v77, %s : f32
    %v79 = arith.addf %v78, %s : f32
    %v80 = arith.addf %v79, %s : f32
    %v81 = arith.addf %v80, %s : f32
    %v82 = arith.addf %v81, %s : f32
    %v83 = arith.addf %v82, %s : f32
    %v84 = arith.addf %v83, %s : f32
    %v85 = arith.addf %v84, %s : f32
    %v86 = arith.addf %v85, %s : f32
    %v87 = arith.addf %v86, %s : f32
    %v88 = arith.addf %v87, %s : f32
    %v89 = arith.addf %v88, %s : f32
    %v90 = arith.addf %v89, %s : f32
    %v91 = arith.addf %v90, %s : f32
    %v92 = arith.addf %v91, %s : f32
    %v93 = arith.addf %v92, %s : f32
    %v94 = arith.addf %v93, %s : f32
    %v95 = arith.addf %v94, %s : f32
    %v96 = arith.addf %v95, %s : f32
    %v97 = arith.addf %v96, %s : f32
    %v98 = arith.addf %v97, %s : f32
    %v99 = arith.addf %v98, %s : f32
    %v100 = arith.addf %v99, %s : f32
    %v101 = arith.addf %v100, %s : f32
    %v102 = arith.addf %v101, %s : f32
    %v103 = arith.addf %v102, %s : f32
    %v104 = arith.addf %v103, %s : f32
    %v105 = arith.addf %v104, %s : f32
    %v106 = arith.addf %v105, %s : f32
    %v107 = arith.addf %v106, %s : f32
    %v108 = arith.addf %v107, %s : f32
    %v109 = arith.addf %v108, %s : f32
    %v110 = arith.addf %v109, %s : f32
    memref.store %v110, %x[%i] : memref<65536xf32>
  } {openinfer.parallel}
  func.return
}
}

// -----

// A small loop is cheaper to compile twice.

// CHECK-LABEL: func.func @step
// CHECK-NOT: _rounds0
builtin.module attributes {openinfer.target = "generic"} {
func.func @step(%c: memref<i8>, %x: memref<65536xf32>) {
  %zero = arith.constant 0 : i8
  %v = memref.load %c[] : memref<i8>
  %yes = arith.cmpi ne, %v, %zero : i8
  scf.if %yes {
    func.call @scale_0(%x) : (memref<65536xf32>) -> ()
  }
  func.return
}
func.func private @scale_0(%x: memref<65536xf32>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %end = arith.constant 65536 : index
  %s = memref.load %x[%c0] : memref<65536xf32>
  scf.for %i = %c0 to %end step %c4 {
    %v0 = memref.load %x[%i] : memref<65536xf32>
    %v1 = arith.addf %v0, %s : f32
    %v2 = arith.addf %v1, %s : f32
    %v3 = arith.addf %v2, %s : f32
    %v4 = arith.addf %v3, %s : f32
    %v5 = arith.addf %v4, %s : f32
    %v6 = arith.addf %v5, %s : f32
    %v7 = arith.addf %v6, %s : f32
    %v8 = arith.addf %v7, %s : f32
    %v9 = arith.addf %v8, %s : f32
    %v10 = arith.addf %v9, %s : f32
    memref.store %v10, %x[%i] : memref<65536xf32>
  } {openinfer.parallel}
  func.return
}
}
