// Package driver serves volume plugins as a CSI driver.
package driver
