// Package kubenode has the steps that tests of CSI drivers on a real node share. Only tests import it.
package kubenode
