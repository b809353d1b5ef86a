// Package nodesteps has the steps that tests with pods on a real node share. Only tests import it.
package nodesteps
