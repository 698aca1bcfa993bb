; Classes, with the names of their bases, and functions that are tests.
(class_definition name: (identifier) @name) @group

(class_definition
  superclasses: (argument_list [
    (identifier) @base
    (attribute attribute: (identifier) @base)
    (subscript value: (identifier) @base)
    (subscript value: (attribute attribute: (identifier) @base))
  ])) @heir

((function_definition name: (identifier) @name) @test
  (#match? @name "^test"))

; Functions and classes whose tests are to fail.
((decorated_definition (decorator) @mark definition: (_) @fails)
  (#match? @mark "\\b(xfail|expectedFailure)\\b"))
