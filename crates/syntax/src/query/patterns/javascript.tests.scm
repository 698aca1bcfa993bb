; A call of `test`, `it`, `describe` or `suite`, also as `test.only`, `test.each(…)` or `test.each`…``.
((call_expression
  function: (_) @callee
  arguments: (arguments . [(string) (template_string) (binary_expression left: (string))] @title)) @group
  (#match? @callee "^(describe|suite)(\\.[A-Za-z]+)*([(`][\\s\\S]*)?$"))

((call_expression
  function: (_) @callee
  arguments: (arguments . [(string) (template_string) (binary_expression left: (string))] @title)) @test
  (#match? @callee "^(test|it)(\\.[A-Za-z]+)*([(`][\\s\\S]*)?$"))

; A test in a test, by its context: `t.test(…, …)`.
((call_expression
  function: (member_expression object: (identifier) @context property: (property_identifier) @word)
  arguments: (arguments . [(string) (template_string) (binary_expression left: (string))] @title . (_))) @test
  (#match? @word "^(test|it)$")
  (#not-match? @context "^(test|it|describe|suite)$"))

; A function that may make groups of its own, unless a group, a test or a loop calls it.
[(function_declaration) (function_expression) (arrow_function) (method_definition)] @function

(call_expression
  function: (_) @caller
  arguments: (arguments [(function_expression) (arrow_function)] @callback))
