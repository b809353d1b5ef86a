// Package csi is the volume plugin kubernetes.io/csi: it uses the volumes of CSI drivers on a node,
// as a kubelet does.
package csi
